// SPDX-License-Identifier: BSD-3-Clause
// Tables about a cluster.
#include "apps/console/snapshot.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "apps/config/suggest.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

int number_of(const std::string& id) {
  const auto blank = id.rfind(' ');
  return blank == std::string::npos ? 0 : std::atoi(id.c_str() + blank + 1);
}

/// "0-5, 7"; where there are too many pieces, the first of them.
std::string ranges_text(std::vector<int> numbers) {
  constexpr int most_pieces = 6;
  std::ranges::sort(numbers);
  std::string text;
  for (std::size_t i = 0, pieces = 0; i < numbers.size(); ++i) {
    if (++pieces > most_pieces)
      return text + ", ...";
    const int first = numbers[i];
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1)
      ++i;
    text += fmt::format("{}{}{}", pieces > 1 ? ", " : "", first, numbers[i] > first ? fmt::format("-{}", numbers[i]) : "");
  }
  return text;
}

} // namespace

std::string names_text(const std::vector<std::string>& ids) {
  constexpr std::size_t most_named = 4;
  std::vector<std::pair<std::string, std::vector<int>>>
      roles; // in the order of first appearance; an id without a number stands alone
  for (const auto& id : ids) {
    const auto blank = id.rfind(' ');
    const bool numbered =
        blank != std::string::npos && blank + 1 < id.size() && id.find_first_not_of("0123456789", blank + 1) == std::string::npos;
    const auto role = numbered ? id.substr(0, blank) : id;
    auto known_role = std::ranges::find_if(roles, [&](const auto& each) { return each.first == role; });
    if (known_role == roles.end())
      known_role = roles.insert(known_role, {role, {}});
    if (numbered)
      known_role->second.push_back(number_of(id));
  }
  std::vector<std::string> out;
  for (const auto& [role, numbers] : roles)
    if (numbers.empty())
      out.push_back(role);
    else if (numbers.size() > most_named)
      out.push_back(fmt::format("{} {}s ({})", numbers.size(), role, ranges_text(numbers)));
    else
      for (const int number : numbers)
        out.push_back(fmt::format("{} {}", role, number));
  return fmt::format("{}", fmt::join(out, ", "));
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

namespace {

/// An id with its job, where the cluster runs several.
std::string name_of(const std::string& id, std::uint64_t job, const snapshot& seen) {
  std::set<std::uint64_t> running;
  for (const auto& node : seen.reports.nodes)
    if (node.job != 0)
      running.insert(node.job);
  return running.size() > 1 && job != 0 && !id.empty() ? fmt::format("{}/{}", job, id) : id;
}

} // namespace

boost::json::object json_of(const actors::actor_report& actor, const snapshot& seen) {
  boost::json::object fields;
  boost::json::array waits_for;
  for (const auto& id : actor.waits_for)
    waits_for.push_back(boost::json::value(name_of(id, actor.job, seen)));
  for (const auto& [key, value] : actor.fields)
    fields[key] = value;
  return {{"id", name_of(actor, seen)},
          {"role", actor.role},
          {"node", actor.node},
          {"job", actor.job},
          {"state", actor.state},
          {"since_s", actor.since_s},
          {"mailbox", actor.mailbox},
          {"messages", actor.messages},
          {"messages_per_s", actor.messages_per_s},
          {"busy", actor.busy},
          {"handler_s", actor.handler_s},
          {"waits_for", std::move(waits_for)},
          {"waits_on", actor.waits_on},
          {"wait_deadline_s", value_or_null(actor.wait_deadline_s > 0, actor.wait_deadline_s)},
          {"last_error", actor.last_error},
          {"parent", name_of(actor.parent, actor.job, seen)},
          {"watched_by", name_of(actor.watched_by, actor.job, seen)},
          {"paused", actor.paused},
          {"stuck", actor.stuck},
          {"ended", actor.ended},
          {"fields", std::move(fields)}};
}

namespace {

/// Whether this is the name of a job's actor.
bool is_of_a_job(const std::string& name) {
  constexpr std::array roles{"worker", "compute", "loader", "shard", "aggregator", "evaluator", "coordinator"};
  const auto id = actor_id(name);
  return std::ranges::find(roles, id.substr(id.find('/') + 1, id.rfind(' ') - id.find('/') - 1)) != roles.end();
}

/// A node that does not answer may hold any actor of a job.
bool may_be_unseen(const snapshot& seen, const std::string& name) {
  return is_of_a_job(name) && std::ranges::any_of(seen.reports.nodes, [](const auto& node) { return !node.silent.empty(); });
}

} // namespace

bool is_nobody(const snapshot& seen, const std::string& name) {
  return find_actor(seen.actors(), seen, name) == nullptr && !may_be_unseen(seen, name);
}

answer no_such(const snapshot& seen, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& actor : seen.actors())
    names.push_back(name_of(actor, seen));
  auto text = names.empty() ? "no job runs, so there are no actors"
                            : fmt::format("there is no actor \"{}\"{}; `ps` lists them", name,
                                          config::did_you_mean(config::nearest(name, names)));
  for (const auto& node : seen.reports.nodes)
    if (!node.silent.empty())
      text += fmt::format("\nnode {} does not answer ({}), so what it holds cannot be seen", node.node, node.silent);
  return wrong(text);
}

answer no_answer(const caf::error& why) {
  const auto text = actors::explain(why);
  return wrong(why == caf::sec::cannot_connect_to_node ? text : "the cluster does not answer: " + text);
}

namespace {

/// ", waits for worker 1: gradients of round 12"; empty: it does not wait.
std::string waits_text(const actors::actor_report& actor) {
  if (actor.waits_for.empty())
    return actor.waits_on.empty() ? "" : fmt::format(": {}", actor.waits_on);
  return fmt::format(", waits for {}{}{}", names_text(actor.waits_for), actor.waits_on.empty() ? "" : ": ", actor.waits_on);
}

/// Follows the waits from one actor down to their causes.
class search {
public:
  search(const snapshot& seen, const std::vector<actors::actor_report>& all) : seen_(seen), all_(all) {}

  void from(const actors::actor_report& start) {
    std::vector<const actors::actor_report*> open{&start};
    std::set<std::string> seen;
    while (!open.empty()) {
      const auto* actor = open.back();
      open.pop_back();
      if (!seen.insert(actor->id).second)
        continue;
      note(*actor);
      if (actor->stuck || actor->ended || actor->waits_for.empty())
        causes_.push_back(cause_of(*actor));
      else
        for (const auto& next : actor->waits_for)
          follow(*actor, next, open);
    }
    if (causes_.empty())
      look_around(start.job);
  }

  const std::vector<const actors::actor_report*>& chain() const { return chain_; }
  const std::vector<std::string>& causes() const { return causes_; }

private:
  /// How long data wait for a peer before it is reported: far longer than a round trip.
  static constexpr double stalled_s = 0.5;
  static constexpr std::string_view idle = "idle"; ///< the state of an actor without work

  void follow(const actors::actor_report& actor, const std::string& next, std::vector<const actors::actor_report*>& open) {
    const auto known = std::ranges::find_if(all_, [&](const auto& a) { return a.job == actor.job && a.id == next; });
    if (known == all_.end())
      causes_.push_back(unseen(actor.job, next));
    else if (const auto lane = stalled(actor.job, known->node, actor.node); !lane.empty())
      causes_.push_back(lane); // the awaited message is on its way
    else if (known->state == idle && !known->stuck && !known->ended)
      rests(actor, *known);
    else
      open.push_back(&*known);
  }

  /// An idle actor is waited for: the request is probably under way, since the two are not looked at in the same moment. If that
  /// lasts, it is a cause.
  void rests(const actors::actor_report& actor, const actors::actor_report& awaited) {
    note(awaited);
    if (const auto waited_s = std::min(actor.since_s, awaited.since_s); waited_s >= stalled_s)
      causes_.push_back(fmt::format("{} on node {}: it is idle, and {} has waited for it for {}", name_of(awaited, seen_),
                                    awaited.node, name_of(actor, seen_), seconds_text(waited_s)));
  }

  void note(const actors::actor_report& actor) {
    if (std::ranges::find(chain_, &actor) == chain_.end())
      chain_.push_back(&actor);
  }

  std::string cause_of(const actors::actor_report& actor) const {
    const auto who = fmt::format("{} on node {}", name_of(actor, seen_), actor.node);
    if (actor.ended)
      return fmt::format("{}: it has ended: {}", who, actor.last_error);
    const auto state =
        fmt::format("{}: it {} for {}", who, actor.state == idle ? "has been idle" : actor.state, seconds_text(actor.since_s));
    if (actor.stuck && actor.handler_s > 0)
      return fmt::format("{}, and has not answered for {}", state, seconds_text(actor.handler_s));
    if (actor.stuck)
      return fmt::format("{}, and does not get to answer", state);
    return actor.waits_on.empty() ? state : fmt::format("{}: {}", state, actor.waits_on);
  }

  std::string unseen(std::uint64_t job, const std::string& name) const {
    std::string silent;
    for (const auto& node : seen_.reports.nodes)
      if (node.job == job && !node.silent.empty())
        silent += fmt::format("{}node {} ({})", silent.empty() ? "" : ", ", node.node, node.silent);
    return silent.empty() ? fmt::format("{}, which is unknown", name)
                          : fmt::format("{}: it is on a node that does not answer: {}", name, silent);
  }

  /// Describes a lane that is stalled or has no connection; empty: there is none. With empty names: any lane of the job.
  std::string stalled(std::uint64_t job, const std::string& from, const std::string& to) const {
    for (const auto& node : seen_.reports.nodes)
      for (const auto& link : node.links) {
        if (node.job != job || (!from.empty() && (node.node != from || link.peer != to)))
          continue;
        if (link.away_s > 0)
          return fmt::format("the lane from node {} to node {}: its connection broke {} ago, and is dialed again", node.node,
                             link.peer, seconds_text(link.away_s));
        if (link.stalled_s >= stalled_s)
          return fmt::format("the lane from node {} to node {}: {} wait in it{}, and nothing has gone for {}", node.node,
                             link.peer, bytes_text(static_cast<double>(link.queued_bytes)),
                             link.queued_bytes > link.credit_bytes
                                 ? fmt::format(", over its credit of {}", bytes_text(static_cast<double>(link.credit_bytes)))
                                 : "",
                             seconds_text(link.stalled_s));
      }
    return {};
  }

  /// Describes a lane of the job on which nothing comes. It says less than data that wait, or an actor that works.
  std::string silent(std::uint64_t job) const {
    for (const auto& node : seen_.reports.nodes)
      for (const auto& link : node.links)
        if (node.job == job && link.silent_s >= stalled_s)
          return fmt::format("the lane from node {} to node {}: nothing has come from there for {}; a node without parameters is "
                             "put out when it has been silent for 1 to 5 s, and asked back",
                             node.node, link.peer, seconds_text(link.silent_s));
    return {};
  }

  /// They wait in a circle for something between them, which perhaps only a shard other than the lead misses, or keeps.
  void look_around(std::uint64_t job) {
    if (const auto lane = stalled(job, "", ""); !lane.empty())
      causes_.push_back(lane);
    else if (const auto quiet = silent(job); !quiet.empty())
      causes_.push_back(quiet);
    for (const auto& actor : all_)
      if (actor.job == job && (actor.stuck || (actor.waits_for.empty() && !actor.waits_on.empty())))
        causes_.push_back(cause_of(actor));
  }

  const snapshot& seen_;
  const std::vector<actors::actor_report>& all_;
  std::vector<const actors::actor_report*> chain_;
  std::vector<std::string> causes_;
};

} // namespace

std::vector<actors::actor_report> snapshot::actors() const {
  std::vector<actors::actor_report> all;
  for (const auto& node : reports.nodes)
    all.insert(all.end(), node.actors.begin(), node.actors.end());
  std::ranges::sort(all, {}, [](const actors::actor_report& a) { return std::tuple{a.job, a.role, number_of(a.id), a.id}; });
  return all;
}

std::string name_of(const actors::actor_report& actor, const snapshot& seen) {
  return name_of(actor.id, actor.job, seen);
}

std::string actor_id(std::string name) {
  std::ranges::replace(name, ':', ' ');
  if (!name.empty() && name.find(' ') == std::string::npos && name.back() >= '0' && name.back() <= '9')
    name.insert(name.find_last_not_of("0123456789") + 1, " ");
  if (name == "coordinator" || name == "evaluator")
    name += " 0";
  return name;
}

const actors::actor_report* find_actor(const std::vector<actors::actor_report>& all, const snapshot& seen,
                                       const std::string& name) {
  const auto wanted = actor_id(name);
  const auto found = std::ranges::find_if(all, [&](const auto& actor) { return name_of(actor, seen) == wanted; });
  return found == all.end() ? nullptr : &*found;
}

answer ps(const snapshot& seen, const std::string& only) {
  std::vector<std::vector<std::string>> rows{{"actor", "node", "state", "for", "mailbox", "messages/s", "busy", "waits for"}};
  boost::json::array list;
  for (const auto& actor : seen.actors()) {
    if (!only.empty() && actor.role != only && actor.node != only)
      continue;
    rows.push_back({name_of(actor, seen), actor.node, actor.stuck ? actor.state + " (no answer)" : actor.state,
                    seconds_text(actor.since_s), std::to_string(actor.mailbox), fmt::format("{:.0f}", actor.messages_per_s),
                    fmt::format("{:.0f} %", 100 * actor.busy), names_text(actor.waits_for)});
    list.push_back(json_of(actor, seen));
  }
  auto text =
      rows.size() == 1 ? std::string{only.empty() ? "no job runs\n" : "no actor of that role or on that node\n"} : table(rows);
  boost::json::array silent;
  for (const auto& node : seen.reports.nodes)
    if (!node.silent.empty()) {
      text += fmt::format("node {} does not answer: {}\n", node.node, node.silent);
      silent.push_back({{"node", node.node}, {"reason", node.silent}});
    }
  return {text, {{"actors", std::move(list)}, {"silent", std::move(silent)}}};
}

answer show(const snapshot& seen, const std::string& name) {
  const auto all = seen.actors();
  const auto* actor = find_actor(all, seen, name);
  if (actor == nullptr)
    return no_such(seen, name);
  std::string text =
      fmt::format("{} on node {}: {} for {}\n", name_of(*actor, seen), actor->node, actor->state, seconds_text(actor->since_s));
  text += fmt::format("  {} in its mailbox, {} handled, {:.1f} a second; {:.1f} % of the time in handlers\n",
                      counted(actor->mailbox, "message"), actor->messages, actor->messages_per_s, 100 * actor->busy);
  if (actor->stuck)
    text += fmt::format("  it has not answered{}\n",
                        actor->handler_s > 0 ? ": in one handler for " + seconds_text(actor->handler_s) : "");
  if (!actor->waits_for.empty() || !actor->waits_on.empty())
    text += fmt::format("  {}\n", waits_text(*actor).substr(2));
  if (!actor->parent.empty())
    text +=
        fmt::format("  spawned by {}{}\n", actor->parent, actor->watched_by.empty() ? "" : ", watched by " + actor->watched_by);
  if (!actor->last_error.empty())
    text += fmt::format("  last error: {}\n", actor->last_error);
  for (const auto& [key, value] : actor->fields)
    text += fmt::format("  {} {}\n", key, value);
  return {text, json_of(*actor, seen)};
}

namespace {

/// For an unknown actor: its job may wait, or it may be on a node that does not answer.
answer why_unseen(const snapshot& seen, const std::string& name) {
  const auto id = actor_id(name);
  std::vector<std::string> causes, silent;
  for (const auto& job : seen.cluster.jobs)
    if (is_of_a_job(name) && job.state.starts_with("waits"))
      causes.push_back(fmt::format("{} would be of job {} ({}), which {}", id, job.number, job.name, job.state));
  for (const auto& node : seen.reports.nodes)
    if (!node.silent.empty())
      silent.push_back(fmt::format("node {} ({})", node.node, node.silent));
  if (may_be_unseen(seen, name))
    causes.push_back(fmt::format("{} cannot be seen; it may be on a node that does not answer: {}", id, fmt::join(silent, ", ")));
  if (causes.empty())
    return no_such(seen, name);
  return {fmt::format("=> {}\n", fmt::join(causes, "\n=> ")),
          {{"chain", boost::json::array{}}, {"causes", boost::json::value_from(causes)}, {"rounds_per_s", nullptr}}};
}

std::string deadline_text(const actors::actor_report& actor) {
  return actor.waits_for.empty() || actor.wait_deadline_s == 0
             ? ""
             : fmt::format("; given up after {}", seconds_text(actor.wait_deadline_s));
}

/// About actors that wait for each other.
std::string circle_text(std::optional<double> rounds_per_s) {
  if (!rounds_per_s)
    return "they wait for each other: between two messages, or for ever";
  if (*rounds_per_s == 0)
    return "they wait for each other, and no round is closed";
  return fmt::format("moving: {:.{}f} rounds/s", *rounds_per_s, *rounds_per_s < 10 ? 1 : 0);
}

} // namespace

answer why(const snapshot& seen, const std::string& name, std::optional<double> rounds_per_s) {
  const auto all = seen.actors();
  const auto* start = find_actor(all, seen, name);
  if (start == nullptr)
    return why_unseen(seen, name);
  search found{seen, all};
  found.from(*start);
  std::string text;
  boost::json::array chain, causes;
  for (const auto* actor : found.chain()) {
    text += fmt::format("{} ({}) {} for {}{}\n", name_of(*actor, seen), actor->node, actor->state, seconds_text(actor->since_s),
                        waits_text(*actor) + deadline_text(*actor));
    chain.push_back(json_of(*actor, seen));
  }
  for (const auto& cause : found.causes()) {
    text += fmt::format("=> {}\n", cause);
    causes.push_back(boost::json::value(cause));
  }
  if (causes.empty())
    text += fmt::format("=> {}\n", circle_text(rounds_per_s));
  return {text,
          {{"chain", std::move(chain)},
           {"causes", std::move(causes)},
           {"rounds_per_s", rounds_per_s ? boost::json::value(*rounds_per_s) : nullptr}}};
}

answer nodes(const snapshot& seen) {
  std::vector<std::vector<std::string>> rows{{"node", "host", "may hold", "state", "job", "pid"}};
  boost::json::array list;
  for (const auto& member : seen.cluster.members) {
    auto job = member.job;
    for (const auto& each : seen.cluster.jobs) // the coordinator's node takes part in all
      if (&member == &seen.cluster.members.front() && job == 0 && !each.nodes.empty())
        job = each.number;
    const std::string state = !member.here ? "not here" : !member.leaving ? "here" : job == 0 ? "drained" : "leaves";
    auto state_text = state;
    if (member.here && member.leaving)
      state_text += job == 0 ? fmt::format(" for {}", seconds_text(member.leaving_s))
                             : fmt::format(" when job {} ends; waits for {}", job, seconds_text(member.leaving_s));
    std::string may = member.node.shard ? "shards" : "";
    may += member.node.worker ? (may.empty() ? "workers" : ", workers") : "";
    rows.push_back({member.node.name, member.node.host, may, state_text, job == 0 ? "" : std::to_string(job),
                    member.pid == 0 ? "" : std::to_string(member.pid)});
    list.push_back({{"name", member.node.name},
                    {"host", member.node.host},
                    {"state", state},
                    {"leaving_s", member.leaving_s},
                    {"job", job},
                    {"pid", member.pid}});
  }
  return {table(rows), {{"nodes", std::move(list)}}};
}

namespace {

/// Jobs that have ended, the newest last.
std::string ended_part(const std::vector<actors::job_title>& known, boost::json::array& list) {
  std::vector<std::vector<std::string>> rows{
      {"job", "name", "protocol", "step", "train loss", "test loss", "accuracy", "how it ended"}};
  for (const auto& job : known) {
    if (!job.ended)
      continue;
    const auto now = job.now.value_or(actors::progress{});
    const auto last = job.evaluated.value_or(actors::evaluation_point{});
    const auto text = [](bool has, double value) { return has ? fmt::format("{:.4f}", value) : std::string{"-"}; };
    const bool evaluated = job.evaluated.has_value();
    // The last evaluation's loss, as in the run's summary; without one, that of the last round.
    const bool trained = evaluated || job.now.has_value();
    const double train_loss = evaluated ? last.train_loss : now.train_loss;
    rows.push_back({std::to_string(job.number), job.name, job.protocol, std::to_string(std::max(now.step, last.step)),
                    text(trained, train_loss), text(evaluated, last.test_loss), text(evaluated, last.test_accuracy), job.state});
    list.push_back({{"number", job.number},
                    {"name", job.name},
                    {"protocol", job.protocol},
                    {"state", job.state},
                    {"steps", std::max(now.step, last.step)},
                    {"train_loss", number_or_null(trained, train_loss)},
                    {"test_loss", number_or_null(evaluated, last.test_loss)},
                    {"test_accuracy", number_or_null(evaluated, last.test_accuracy)}});
  }
  return rows.size() == 1 ? "" : table(rows);
}

} // namespace

answer jobs(const actors::cluster_view& cluster, const actors::history& past) {
  std::vector<std::vector<std::string>> rows{{"job", "name", "protocol", "state", "step", "epoch", "nodes"}};
  boost::json::array list;
  for (const auto& job : cluster.jobs) {
    rows.push_back({std::to_string(job.number), job.name, job.protocol, job.state, std::to_string(job.steps),
                    fmt::format("{:.2f}", job.epochs), fmt::format("{}", fmt::join(job.nodes, ", "))});
    list.push_back({{"number", job.number},
                    {"name", job.name},
                    {"protocol", job.protocol},
                    {"state", job.state},
                    {"steps", job.steps},
                    {"samples", job.samples},
                    {"epochs", job.epochs},
                    {"nodes", boost::json::value_from(job.nodes)}});
  }
  boost::json::array ended;
  const auto over = ended_part(past.jobs, ended);
  const auto go_on = rows.size() == 1 ? std::string{"no jobs\n"} : table(rows);
  return {over.empty() ? go_on : fmt::format("{}\n{}", go_on, over), {{"jobs", std::move(list)}, {"ended", std::move(ended)}}};
}

} // namespace troupe::apps::console
