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

/// Longer than a coordinator waits for the actor that carries an order out.
constexpr std::chrono::seconds patience{40};

/// Acts on the running job; where several run, on the one with that number or name.
answer for_job(session& client, const std::string& named, const std::function<answer(std::uint64_t)>& act) {
  const auto seen = client.ask<actors::cluster_view>(actors::cluster_query{});
  if (!seen)
    return no_answer(seen.error());
  std::vector<std::uint64_t> running;
  for (const auto& job : seen->jobs)
    if (job.state == "runs" && (named.empty() || named == std::to_string(job.number) || named == job.name))
      running.push_back(job.number);
  if (running.size() == 1)
    return act(running.front());
  if (running.empty())
    return wrong(named.empty() ? "no job runs" : fmt::format("no job \"{}\" runs; `jobs` lists them", named));
  return wrong(fmt::format("jobs {0} run; say which: `pause {1}/worker 0`, `set KEY VALUE {1}`", fmt::join(running, " and "),
                           running.front()));
}

/// `name`: "worker 2", or "3/worker 2" where several jobs run. It may be a dead worker's.
answer order(session& client, role_verb verb, const std::string& word, const std::string& name) {
  if (name.empty())
    return wrong(fmt::format("{} needs an actor: {} worker 0", word, word));
  const auto slash = name.find('/');
  const auto actor = actor_id(slash == std::string::npos ? name : name.substr(slash + 1));
  return for_job(client, slash == std::string::npos ? "" : name.substr(0, slash), [&](std::uint64_t job) {
    auto seen = client.look();
    if (!seen)
      return no_answer(seen.error());
    std::erase_if(seen->reports.nodes, [job](const auto& node) { return node.job != job; });
    if (is_nobody(*seen, actor))
      return no_such(*seen, actor);
    if (verb != role_verb::resume && !client.agreed(fmt::format("{} {} of job {}?", word, actor, job)))
      return answer{"nothing was done\n", {{"done", false}, {"actor", actor}}};
    const auto said = client.ask<std::string>(actors::actor_order{job, verb, actor}, patience);
    return said ? answer{*said + "\n", {{"done", true}, {"actor", actor}}} : wrong(actors::explain(said.error()));
  });
}

command order_command(role_verb verb, const std::string& word, const std::string& meaning) {
  return {.usage = word + " ACTOR",
          .meaning = meaning,
          .example = word + " worker 0",
          .json = "done actor",
          .carry_out = [verb, word](session& client, const std::string& name) { return order(client, verb, word, name); },
          .offers = actor_names,
          .changes = true};
}

answer checkpoint(session& client, const std::string& named) {
  return for_job(client, named, [&](std::uint64_t job) {
    const auto folder = client.ask<std::string>(actors::save_order{job}, patience);
    return folder ? answer{fmt::format("checkpoint {}\n", *folder), {{"done", true}, {"folder", *folder}}}
                  : wrong(actors::explain(folder.error()));
  });
}

answer set(session& client, const std::string& line) {
  std::istringstream words{line};
  std::string key, value, job;
  words >> key >> value;
  if (value == "=")
    words >> value;
  words >> job;
  if (value.empty())
    return wrong("set needs a key and a value: set optimizer.lr 0.05; optimizer.lr, protocol.steps and log.level may change");
  return for_job(client, job, [&](std::uint64_t number) {
    const auto said = client.ask<std::string>(actors::change_order{number, key, value}, patience);
    return said ? answer{*said + "\n", {{"done", true}, {"key", key}, {"value", value}}} : wrong(actors::explain(said.error()));
  });
}

/// The recorded traces of all nodes.
caf::expected<std::vector<actors::node_trace>> download(session& client, std::uint64_t job) {
  std::vector<actors::node_trace> all;
  for (std::uint32_t node = 0, nodes = 1; node < nodes; ++node)
    for (bool last = false; !last;) {
      const auto offset = all.size() > node ? all[node].events.size() : 0;
      const auto piece = client.ask<actors::node_trace_piece>(actors::node_trace_query{job, node, offset});
      if (!piece)
        return piece.error();
      nodes = piece->nodes;
      append(all, *piece, offset);
      last = piece->events.last;
    }
  return all;
}

answer end_trace(session& client, std::uint64_t job) {
  const auto recorded = client.ask<actors::recording>(actors::record_order{job, false, {}}, patience);
  if (!recorded)
    return wrong(actors::explain(recorded.error()));
  const auto traces = download(client, job);
  if (!traces)
    return no_answer(traces.error());
  if (const auto written = actors::write_trace(recorded->file, recorded->job, *traces); !written)
    return wrong(written.error().message);
  std::size_t events = 0;
  for (const auto& node : *traces)
    events += node.events.size();
  return {fmt::format("{} in {}\n", counted(events, "span"), recorded->file),
          {{"recording", false}, {"file", recorded->file}, {"events", events}}};
}

answer begin_trace(session& client, std::uint64_t job, const std::string& file) {
  if (const auto why = cannot_write(file); !why.empty())
    return wrong(fmt::format("{}: {}", file, why));
  const auto recorded = client.ask<actors::recording>(actors::record_order{job, true, file}, patience);
  return recorded ? answer{fmt::format("what every actor does is recorded; `trace off` writes it to {}\n", file),
                           {{"recording", true}, {"file", file}, {"events", nullptr}}}
                  : wrong(actors::explain(recorded.error()));
}

answer trace(session& client, const std::string& line) {
  std::istringstream words{line};
  std::string verb, file, job;
  words >> verb;
  if (verb == "on")
    words >> file;
  words >> job;
  if ((verb != "on" && verb != "off") || (verb == "on" && file.empty()))
    return wrong("trace takes on FILE, and later off: trace on FILE, trace off");
  return for_job(client, job, [&](std::uint64_t number) {
    return verb == "off" ? end_trace(client, number) : begin_trace(client, number, std::filesystem::absolute(file).string());
  });
}

} // namespace

std::vector<command> order_commands() {
  return {
      order_command(role_verb::pause, "pause", "hold an actor until `resume`; its messages wait"),
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
      {.usage = "checkpoint [JOB]",
       .meaning = "write a checkpoint of the next step, where the job has [checkpoint] dir",
       .example = "checkpoint",
       .json = "done folder",
       .carry_out = checkpoint,
       .offers = job_numbers,
       .changes = true},
      {.usage = "trace on FILE|off [JOB]",
       .meaning = "record for a while what every actor does, as `run --trace` does",
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
