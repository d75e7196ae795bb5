// SPDX-License-Identifier: BSD-3-Clause
// Orders to a running job: its actors, its settings, its trace.
#include "apps/console/orders.hpp"

#include <filesystem>
#include <functional>
#include <sstream>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/monitoring/trace_file.hpp"
#include "apps/report.hpp"
#include "apps/trace_pieces.hpp"

namespace troupe::apps::console {

namespace {

using actors::role_verb;

/// Longer than a coordinator waits for whoever carries an order out.
constexpr std::chrono::seconds patience{40};

/// Does something about the job that runs; or of several about the one that is named, by number or name.
answer for_job(session& with, const std::string& named, const std::function<answer(std::uint64_t)>& act) {
  const auto at = with.ask<actors::cluster_view>(actors::cluster_query{});
  if (!at)
    return no_answer(at.error());
  std::vector<std::uint64_t> running;
  for (const auto& job : at->jobs)
    if (job.state == "runs" && (named.empty() || named == std::to_string(job.number) || named == job.name))
      running.push_back(job.number);
  if (running.size() == 1)
    return act(running.front());
  if (running.empty())
    return wrong(named.empty() ? "no job runs" : fmt::format("no job \"{}\" runs; `jobs` lists them", named));
  return wrong(fmt::format("jobs {0} run; say which: `pause {1}/worker 0`, `set KEY VALUE {1}`", fmt::join(running, " and "),
                           running.front()));
}

/// `name`: "worker 2", or "3/worker 2" where several jobs run. One that is dead has a name too.
answer order(session& with, role_verb verb, const std::string& word, const std::string& name) {
  if (name.empty())
    return wrong(fmt::format("{} wants an actor: {} worker 0", word, word));
  const auto slash = name.find('/');
  const auto actor = actor_id(slash == std::string::npos ? name : name.substr(slash + 1));
  return for_job(with, slash == std::string::npos ? "" : name.substr(0, slash), [&](std::uint64_t job) {
    auto at = with.look();
    if (!at)
      return no_answer(at.error());
    std::erase_if(at->reports.nodes, [job](const auto& node) { return node.job != job; });
    if (is_nobody(*at, actor))
      return no_such(*at, actor);
    if (verb != role_verb::resume && !with.agreed(fmt::format("{} {} of job {}?", word, actor, job)))
      return answer{"nothing was done\n", {{"done", false}, {"actor", actor}}};
    const auto said = with.ask<std::string>(actors::actor_order{job, verb, actor}, patience);
    return said ? answer{*said + "\n", {{"done", true}, {"actor", actor}}} : wrong(actors::explain(said.error()));
  });
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
  return for_job(with, job, [&](std::uint64_t number) {
    const auto said = with.ask<std::string>(actors::change_order{number, key, value}, patience);
    return said ? answer{*said + "\n", {{"done", true}, {"key", key}, {"value", value}}} : wrong(actors::explain(said.error()));
  });
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
      append(all, *piece, offset);
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
  if (const auto written = actors::write_trace(of->file, of->job, *traces); !written)
    return wrong(written.error().what);
  std::size_t events = 0;
  for (const auto& node : *traces)
    events += node.events.size();
  return {fmt::format("{} in {}\n", counted(events, "span"), of->file),
          {{"recording", false}, {"file", of->file}, {"events", events}}};
}

answer begin_trace(session& with, std::uint64_t job, const std::string& file) {
  if (const auto why = cannot_write(file); !why.empty())
    return wrong(fmt::format("{}: {}", file, why));
  const auto of = with.ask<actors::recording>(actors::record_order{job, true, file}, patience);
  return of ? answer{fmt::format("what every actor does is recorded; `trace off` writes it to {}\n", file),
                     {{"recording", true}, {"file", file}, {"events", nullptr}}}
            : wrong(actors::explain(of.error()));
}

answer trace(session& with, const std::string& line) {
  std::istringstream words{line};
  std::string what, file, job;
  words >> what;
  if (what == "on")
    words >> file;
  words >> job;
  if ((what != "on" && what != "off") || (what == "on" && file.empty()))
    return wrong("trace takes on FILE, and later off: trace on FILE, trace off");
  return for_job(with, job, [&](std::uint64_t number) {
    return what == "off" ? end_trace(with, number) : begin_trace(with, number, std::filesystem::absolute(file).string());
  });
}

} // namespace

std::vector<command> order_commands() {
  return {
      order_command(role_verb::pause, "pause", "hold an actor until `resume`; what is sent to it waits"),
      order_command(role_verb::resume, "resume", "let a paused actor go on"),
      order_command(role_verb::restart, "restart", "start a worker again, dead or alive"),
      order_command(role_verb::kill, "kill",
                    "end an actor as if it had crashed: training goes on without a worker and ends without a shard"),
      {.usage = "set KEY VALUE [JOB]",
       .meaning = "from the next round on: optimizer.lr, protocol.steps (local steps between communications), or log.level "
                  "(info, debug)",
       .example = "set optimizer.lr 0.05",
       .json = "done key value",
       .carry_out = set,
       .offers =
           [](session&) {
             return words{"optimizer.lr", "protocol.steps", "log.level"};
           },
       .changes = true},
      {.usage = "trace on FILE|off [JOB]",
       .meaning = "record what every actor does, as `run --trace` does, for a while",
       .example = "trace on trace.json",
       .json = "recording file events",
       .carry_out = trace,
       .offers =
           [](session&) {
             return words{"on", "off"};
           },
       .changes = true},
  };
}

} // namespace troupe::apps::console
