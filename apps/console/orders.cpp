// SPDX-License-Identifier: BSD-3-Clause
// Orders to a running job: its actors, its settings, its trace.
#include "apps/console/orders.hpp"

#include <filesystem>
#include <sstream>
#include <variant>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/trace_file.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

using actors::role_verb;
using job_found = std::variant<std::uint64_t, answer>;

/// Longer than a coordinator waits for whoever carries an order out.
constexpr std::chrono::seconds patience{40};

/// The one that runs; or of several the one that is named, by number or name.
job_found running_job(const snapshot& at, const std::string& named) {
  std::vector<std::uint64_t> running;
  for (const auto& job : at.cluster.jobs)
    if (job.state == "runs" && (named.empty() || named == std::to_string(job.number) || named == job.name))
      running.push_back(job.number);
  if (running.size() == 1)
    return running.front();
  if (running.empty())
    return wrong(named.empty() ? "no job runs" : fmt::format("no job \"{}\" runs; `jobs` lists them", named));
  return wrong(fmt::format("jobs {} run; say which", fmt::join(running, " and ")));
}

answer not_done(const std::string& about, const std::string& what) { return {"nothing was done\n", {{"done", false}, {about, what}}}; }

/// `name`: "worker 2", or "3/worker 2" where several jobs run. One that is dead has a name too.
answer order(session& with, role_verb verb, const std::string& word, const std::string& name) {
  if (name.empty())
    return wrong(fmt::format("{} wants an actor: {} worker 0", word, word));
  const auto at = with.look();
  if (!at)
    return no_answer(at.error());
  const auto slash = name.find('/');
  const auto job = running_job(*at, slash == std::string::npos ? "" : name.substr(0, slash));
  if (const auto* why = std::get_if<answer>(&job))
    return *why;
  const auto actor = actor_id(slash == std::string::npos ? name : name.substr(slash + 1));
  if (verb != role_verb::resume && !with.agreed(fmt::format("{} {} of job {}?", word, actor, std::get<std::uint64_t>(job))))
    return not_done("actor", actor);
  const auto said = with.ask<std::string>(actors::actor_order{std::get<std::uint64_t>(job), verb, actor}, patience);
  return said ? answer{*said + "\n", {{"done", true}, {"actor", actor}}} : wrong(actors::explain(said.error()));
}

command order_command(role_verb verb, const std::string& word, const std::string& meaning) {
  return {.usage = word + " ACTOR",
          .meaning = meaning,
          .example = word + " worker 0",
          .json = "done actor",
          .carry_out = [verb, word](session& with, const std::string& name) { return order(with, verb, word, name); },
          .offers = actor_names,
          .changes = true};
}

answer set(session& with, const std::string& line) {
  std::istringstream words{line};
  std::string key, value, job;
  words >> key >> value;
  if (value == "=")
    words >> value;
  words >> job;
  if (value.empty())
    return wrong("set wants a key and a value: set optimizer.lr 0.05; optimizer.lr, protocol.steps and log.level may change");
  const auto at = with.look();
  if (!at)
    return no_answer(at.error());
  const auto found = running_job(*at, job);
  if (const auto* why = std::get_if<answer>(&found))
    return *why;
  const auto said = with.ask<std::string>(actors::change_order{std::get<std::uint64_t>(found), key, value}, patience);
  return said ? answer{*said + "\n", {{"done", true}, {"key", key}, {"value", value}}} : wrong(actors::explain(said.error()));
}

/// Every node's part of what was recorded.
caf::expected<std::vector<actors::node_trace>> fetch(session& with, std::uint64_t job) {
  std::vector<actors::node_trace> all;
  for (std::uint32_t node = 0, nodes = 1; node < nodes; ++node)
    for (bool last = false; !last;) {
      const auto offset = all.size() > node ? all[node].events.size() : 0;
      const auto piece = with.ask<actors::node_trace_piece>(actors::node_trace_query{job, node, offset});
      if (!piece)
        return piece.error();
      nodes = piece->nodes;
      if (offset == 0)
        all.push_back({.name = piece->node});
      auto& to = all.back();
      to.events.insert(to.events.end(), piece->events.events.begin(), piece->events.events.end());
      to.dropped = piece->events.dropped;
      last = piece->events.last;
    }
  return all;
}

answer end_trace(session& with, std::uint64_t job) {
  const auto of = with.ask<actors::recording>(actors::record_order{job, false, {}}, patience);
  if (!of)
    return wrong(actors::explain(of.error()));
  const auto traces = fetch(with, job);
  if (!traces)
    return no_answer(traces.error());
  if (const auto written = actors::write_trace(of->file, of->what, *traces); !written)
    return wrong(written.error().what);
  std::size_t events = 0;
  for (const auto& node : *traces)
    events += node.events.size();
  return {fmt::format("{} in {}\n", counted(events, "span"), of->file), {{"recording", false}, {"file", of->file}, {"events", events}}};
}

answer trace(session& with, const std::string& line) {
  std::istringstream words{line};
  std::string what, file, job;
  words >> what;
  if (what == "on")
    words >> file;
  words >> job;
  if ((what != "on" && what != "off") || (what == "on" && file.empty()))
    return wrong("trace wants to know what to do: trace on FILE, and later trace off");
  const auto at = with.look();
  if (!at)
    return no_answer(at.error());
  const auto found = running_job(*at, job);
  if (const auto* why = std::get_if<answer>(&found))
    return *why;
  const auto number = std::get<std::uint64_t>(found);
  if (what == "off")
    return end_trace(with, number);
  file = std::filesystem::absolute(file).string();
  if (const auto why = cannot_write(file); !why.empty())
    return wrong(fmt::format("{}: {}", file, why));
  const auto of = with.ask<actors::recording>(actors::record_order{number, true, file}, patience);
  return of ? answer{fmt::format("what every actor does is recorded; `trace off` writes it to {}\n", file), {{"recording", true}, {"file", file}, {"events", nullptr}}}
            : wrong(actors::explain(of.error()));
}

} // namespace

std::vector<command> order_commands() {
  return {
    order_command(role_verb::pause, "pause", "an actor stands still until `resume`; what is sent to it waits"),
    order_command(role_verb::resume, "resume", "an actor that stands still goes on"),
    order_command(role_verb::restart, "restart", "a worker, dead or alive, begins a new life"),
    order_command(role_verb::kill, "kill", "an actor dies as if by itself: training goes on without a worker and ends without a shard"),
    {.usage = "set KEY VALUE [JOB]",
     .meaning = "from the next round on: optimizer.lr, protocol.steps (of local and easgd), or log.level (info, debug)",
     .example = "set optimizer.lr 0.05",
     .json = "done key value",
     .carry_out = set,
     .offers = [](session&) { return words{"optimizer.lr", "protocol.steps", "log.level"}; },
     .changes = true},
    {.usage = "trace on FILE|off [JOB]",
     .meaning = "record what every actor does, as `run --trace` does, for a while",
     .example = "trace on trace.json",
     .json = "recording file events",
     .carry_out = trace,
     .offers = [](session&) { return words{"on", "off"}; },
     .changes = true},
  };
}

} // namespace troupe::apps::console
