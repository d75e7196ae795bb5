// SPDX-License-Identifier: BSD-3-Clause
// Differences per second.
#include "apps/console/rates.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

std::string to_text(rate value) {
  return value ? fmt::format("{:.{}f}", *value, *value < 100 ? 1 : 0) : "-";
}
std::string bytes_of(rate value) {
  return value ? bytes_text(*value) : "-";
}

/// The rate of a count that only rises; none where it was reset.
rate per_second(std::optional<std::uint64_t> before, std::uint64_t now, double seconds) {
  if (!before || *before > now || seconds <= 0)
    return {};
  return static_cast<double>(now - *before) / seconds;
}

const actors::link_report* find(const snapshot& seen, const actors::node_report& from, const actors::link_report& link) {
  for (const auto& node : seen.reports.nodes)
    if (node.node == from.node && node.job == from.job)
      for (const auto& each : node.links)
        if (each.peer == link.peer)
          return &each;
  return nullptr;
}

struct lane_speed {
  rate sent, received;
};
lane_speed speed_of(const actors::node_report& from, const actors::link_report& link, const snapshot& before, double seconds) {
  const auto* was = find(before, from, link);
  if (was == nullptr)
    return {};
  return {per_second(was->bytes_sent, link.bytes_sent, seconds), per_second(was->bytes_received, link.bytes_received, seconds)};
}

std::string jobs_part(const snapshot& before, const snapshot& now, boost::json::array& list) {
  std::vector<std::vector<std::string>> rows{{"job", "name", "steps/s", "samples/s"}};
  for (const auto& job : now.cluster.jobs) {
    const auto [steps, samples] = speed_of(job, before, now);
    rows.push_back({std::to_string(job.number), job.name, to_text(steps), to_text(samples)});
    list.push_back(
        {{"number", job.number}, {"name", job.name}, {"steps_per_s", rate_json(steps)}, {"samples_per_s", rate_json(samples)}});
  }
  return rows.size() == 1 ? "no jobs\n" : table(rows);
}

const actors::actor_report* find(const std::vector<actors::actor_report>& all, const actors::actor_report& actor) {
  const auto found = std::ranges::find_if(all, [&](const auto& a) { return a.job == actor.job && a.id == actor.id; });
  return found == all.end() ? nullptr : &*found;
}

rate handled_per_s(const actors::actor_report* before, const actors::actor_report& now, double seconds) {
  return before == nullptr || before->stuck || now.stuck ? rate{} : per_second(before->messages, now.messages, seconds);
}

std::string actors_part(const snapshot& before, const snapshot& now, double seconds, boost::json::array& list) {
  std::vector<std::vector<std::string>> rows{{"actor", "node", "messages/s"}};
  std::map<std::pair<std::uint64_t, std::string_view>, const actors::actor_report*> then; // there may be very many
  for (const auto& node : before.reports.nodes)
    for (const auto& actor : node.actors)
      then.emplace(std::pair{actor.job, std::string_view{actor.id}}, &actor);
  for (const auto& actor : now.actors()) {
    const auto was = then.find({actor.job, actor.id});
    const auto messages = handled_per_s(was == then.end() ? nullptr : was->second, actor, seconds);
    rows.push_back({name_of(actor, now), actor.node, to_text(messages)});
    list.push_back({{"id", name_of(actor, now)}, {"node", actor.node}, {"messages_per_s", rate_json(messages)}});
  }
  return rows.size() == 1 ? "" : fmt::format("\n{}", table(rows));
}

std::string lanes_part(const snapshot& before, const snapshot& now, double seconds, boost::json::array& list) {
  std::vector<std::vector<std::string>> rows{{"from", "to", "sent/s", "received/s", "queued"}};
  for (const auto& node : now.reports.nodes)
    for (const auto& link : node.links) {
      const auto [sent, received] = speed_of(node, link, before, seconds);
      rows.push_back(
          {node.node, link.peer, bytes_of(sent), bytes_of(received), bytes_text(static_cast<double>(link.queued_bytes))});
      list.push_back({{"from", node.node},
                      {"to", link.peer},
                      {"sent_per_s", rate_json(sent)},
                      {"received_per_s", rate_json(received)},
                      {"bytes_queued", link.queued_bytes}});
    }
  return rows.size() == 1 ? "" : fmt::format("\n{}", table(rows));
}

} // namespace

boost::json::value rate_json(rate value) {
  return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

job_speed speed_of(const actors::job_view& job, const snapshot& before, const snapshot& now) {
  const auto seconds = now.at_s - before.at_s;
  const auto was = std::ranges::find(before.cluster.jobs, job.number, &actors::job_view::number);
  if (was == before.cluster.jobs.end())
    return {};
  return {per_second(was->steps, job.steps, seconds), per_second(was->samples, job.samples, seconds)};
}

answer why(const snapshot& before, const snapshot& now, const std::string& name) {
  const auto all = now.actors();
  const auto* actor = find_actor(all, now, name);
  for (const auto& job : now.cluster.jobs)
    if (actor != nullptr && job.number == actor->job)
      return why(now, name, speed_of(job, before, now).steps);
  return why(now, name);
}

answer rates(const snapshot& before, const snapshot& now) {
  const auto seconds = now.at_s - before.at_s;
  boost::json::array actors, jobs, lanes;
  auto text = jobs_part(before, now, jobs);
  text += actors_part(before, now, seconds, actors);
  text += lanes_part(before, now, seconds, lanes);
  return {text, {{"seconds", seconds}, {"actors", std::move(actors)}, {"jobs", std::move(jobs)}, {"lanes", std::move(lanes)}}};
}

/// A living peer speaks five times as often.
constexpr double long_silence_s = 0.5;

answer links(const snapshot& before, const snapshot& now) {
  std::vector<std::vector<std::string>> rows{
      {"from", "to", "sent/s", "received/s", "lent", "waiting", "credit", "round trip", "stalled for", "resumed"}};
  boost::json::array list;
  const auto seconds = now.at_s - before.at_s;
  for (const auto& node : now.reports.nodes)
    for (const auto& link : node.links) {
      const auto [sent, received] = speed_of(node, link, before, seconds);
      rows.push_back({node.node, link.peer, bytes_of(sent), bytes_of(received),
                      link.lent_bytes > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(link.lent_bytes)
                                                                        / static_cast<double>(link.bytes_sent))
                                          : "",
                      bytes_text(static_cast<double>(link.queued_bytes)), bytes_text(static_cast<double>(link.credit_bytes)),
                      fmt::format("{:.2f} ms", link.round_trip_s * 1e3),
                      link.away_s > 0                   ? fmt::format("{:.1f} s, no connection", link.away_s)
                      : link.silent_s >= long_silence_s ? fmt::format("{:.1f} s, silent", link.silent_s)
                      : link.stalled_s > 0              ? fmt::format("{:.1f} s", link.stalled_s)
                                                        : "",
                      link.resumed > 0 ? std::to_string(link.resumed) : ""});
      list.push_back({{"from", node.node},
                      {"to", link.peer},
                      {"bytes_sent", link.bytes_sent},
                      {"bytes_received", link.bytes_received},
                      {"sent_per_s", rate_json(sent)},
                      {"received_per_s", rate_json(received)},
                      {"bytes_queued", link.queued_bytes},
                      {"credit_bytes", link.credit_bytes},
                      {"round_trip_s", link.round_trip_s},
                      {"stalled_s", link.stalled_s},
                      {"away_s", link.away_s},
                      {"resumed", link.resumed},
                      {"silent_s", link.silent_s},
                      {"bytes_lent", link.lent_bytes}});
    }
  return {rows.size() == 1 ? "no lanes\n" : table(rows), {{"links", std::move(list)}}};
}

answer mailbox(const snapshot& before, const snapshot& now, const std::string& name) {
  const auto then_all = before.actors(), all = now.actors();
  const auto* actor = find_actor(all, now, name);
  if (actor == nullptr)
    return no_such(now, name);
  const auto* was = find(then_all, *actor);
  const auto then = was == nullptr ? actor->mailbox : was->mailbox;
  const auto seconds = now.at_s - before.at_s;
  const auto change = (static_cast<double>(actor->mailbox) - static_cast<double>(then)) / seconds;
  rate empty_in;
  if (actor->mailbox == 0)
    empty_in = 0;
  else if (change < 0)
    empty_in = static_cast<double>(actor->mailbox) / -change;
  auto text =
      fmt::format("{} on node {}: {} for {}\n", name_of(*actor, now), actor->node, actor->state, seconds_text(actor->since_s));
  text +=
      fmt::format("  {} in its mailbox; {} before, it had {}\n", counted(actor->mailbox, "message"), seconds_text(seconds), then);
  const auto done = handled_per_s(was, *actor, seconds);
  if (done)
    text += fmt::format("  it handles {} messages a second, busy for {:.0f} % of the time\n", to_text(done), 100 * actor->busy);
  if (actor->handler_s >= 0.1)
    text += fmt::format("  it has been in one handler for {}\n", seconds_text(actor->handler_s));
  if (actor->mailbox == 0)
    text += "  nothing waits\n";
  else if (empty_in)
    text += fmt::format("  it becomes less, by {:.1f} a second: empty in {}\n", -change, seconds_text(*empty_in));
  else
    text += change > 0 ? fmt::format("  it becomes more, by {:.1f} a second\n", change) : "  it stays as it is\n";
  return {text,
          {{"id", name_of(*actor, now)},
           {"node", actor->node},
           {"seconds", seconds},
           {"before", then},
           {"mailbox", actor->mailbox},
           {"change_per_s", change},
           {"handled_per_s", rate_json(done)},
           {"empty_in_s", rate_json(empty_in)},
           {"state", actor->state},
           {"since_s", actor->since_s},
           {"busy", actor->busy},
           {"handler_s", actor->handler_s}}};
}

} // namespace troupe::apps::console
