// SPDX-License-Identifier: BSD-3-Clause
// The table of commands that only look, and how a line is carried out.
#include "apps/console/commands.hpp"

#include <algorithm>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "apps/config/suggest.hpp"
#include "apps/console/control.hpp"
#include "apps/console/orders.hpp"
#include "apps/console/past.hpp"
#include "apps/console/rates.hpp"
#include "apps/console/stragglers.hpp"
#include "apps/console/views.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

using carrier = std::function<answer(session&, const std::string&)>;

/// The first word of a line, and the rest.
std::pair<std::string, std::string> first_word(const std::string& line) {
  std::istringstream words{line};
  std::string first, rest;
  words >> first;
  std::getline(words >> std::ws, rest);
  rest.erase(rest.find_last_not_of(' ') + 1);
  return {first, rest};
}

const command* find_command(const std::string& name) {
  const auto found = std::ranges::find(commands(), name, &command::name);
  return found == commands().end() ? nullptr : &*found;
}

words command_names() {
  words names;
  for (const auto& each : commands())
    names.push_back(each.name());
  return names;
}

answer no_such_command(const std::string& name) {
  return wrong(fmt::format("there is no command \"{}\"{}; `help` lists them", name,
                           config::did_you_mean(config::nearest(name, command_names()))));
}

/// Answers from one look at the cluster; `say` may take the rest of the line too.
template <class Say>
carrier from_look(Say say) {
  return [say](session& client, const std::string& rest) {
    const auto seen = client.look();
    if (!seen)
      return no_answer(seen.error());
    if constexpr (std::is_invocable_v<Say, const snapshot&>)
      return say(*seen);
    else
      return say(*seen, rest);
  };
}

/// Answers from two looks, one before the other.
template <class Say>
carrier from_two_looks(Say say) {
  return [say](session& client, const std::string& rest) {
    const auto looks = client.look_twice();
    if (!looks)
      return no_answer(looks.error());
    if constexpr (std::is_invocable_v<Say, const snapshot&, const snapshot&>)
      return say(looks->first, looks->second);
    else
      return say(looks->first, looks->second, rest);
  };
}

carrier of_actor(carrier ask) {
  return [ask = std::move(ask)](session& client, const std::string& rest) {
    return rest.empty() ? wrong("it needs an actor, such as worker 0; `ps` lists them") : ask(client, rest);
  };
}

/// Actors that wait for each other, or only seem to, are looked at twice.
answer why_now(session& client, const std::string& actor) {
  const auto seen = client.look();
  if (!seen)
    return no_answer(seen.error());
  if (auto out = why(*seen, actor); out.wrong || !out.json.at("causes").as_array().empty())
    return out;
  const auto looks = client.look_twice();
  return looks ? why(looks->first, looks->second, actor) : no_answer(looks.error());
}

answer top_now(session& client, const std::string& order) {
  const auto seen = client.look();
  return seen ? top(*seen, client.before(), order) : no_answer(seen.error());
}

answer tree_now(session& client, const std::string&) {
  const auto seen = client.look();
  return seen ? tree(*seen, client.shows_on().unicode) : no_answer(seen.error());
}

/// The job of that name or number; without one, the newest that runs, else the newest. 0: there is none.
caf::expected<std::uint64_t> job_meant(session& client, const std::string& job) {
  const auto known = client.ask<actors::history>(actors::history_query{});
  if (!known)
    return known.error();
  return find_job(known->jobs, job);
}

answer loss_now(session& client, const std::string& job) {
  const auto meant = job_meant(client, job);
  if (!meant)
    return no_answer(meant.error());
  if (*meant == 0)
    return no_such_job(job);
  const auto past = client.ask<actors::history>(actors::history_query{*meant});
  return past ? loss(*past, *meant, client.shows_on()) : no_answer(past.error());
}

answer events_now(session& client, const std::string& job) {
  std::uint64_t number = 0;
  if (!job.empty()) {
    const auto meant = job_meant(client, job);
    if (!meant)
      return no_answer(meant.error());
    if (*meant == 0)
      return no_such_job(job);
    number = *meant;
  }
  const auto past = client.ask<actors::history>(actors::history_query{number});
  return past ? events(*past, client.shows_on()) : no_answer(past.error());
}

answer jobs_now(session& client, const std::string&) {
  const auto view = client.ask<actors::cluster_view>(actors::cluster_query{});
  if (!view)
    return no_answer(view.error());
  const auto past = client.ask<actors::history>(actors::history_query{});
  return past ? jobs(*view, *past) : no_answer(past.error());
}

/// `watched`: a command that only looks, or an actor.
answer watch(session& client, const std::string& watched) {
  const auto [name, rest] = first_word(watched);
  const auto* inner = find_command(name);
  if (inner == nullptr)
    inner = find_command("show");
  else if (inner->changes || name == "watch" || name == "help" || name == "quit")
    return wrong("it needs an actor, or a command that only looks: watch worker 0, watch links");
  return inner->carry_out(client, inner->name() == name ? rest : watched);
}

answer help(session&, const std::string& about) {
  const auto* one = find_command(about);
  if (one == nullptr && !about.empty())
    return no_such_command(about);
  boost::json::array list;
  std::vector<std::vector<std::string>> rows;
  for (const auto& each : commands())
    if (one == nullptr || &each == one) {
      rows.push_back({each.usage, each.meaning});
      list.push_back({{"usage", each.usage}, {"meaning", each.meaning}, {"example", each.example}, {"json", each.json}});
    }
  auto text = table(rows);
  if (one != nullptr)
    text += fmt::format("such as: {}\nas JSON: {}\n", one->example, one->json);
  return {text, {{"commands", std::move(list)}}};
}

words roles_and_nodes(session& client) {
  auto names = node_names(client);
  names.insert(names.end(), {"worker", "compute", "loader", "shard", "aggregator", "evaluator", "coordinator", "node"});
  return names;
}

words commands_and_actors(session& client) {
  auto names = command_names();
  std::ranges::copy(actor_names(client), std::back_inserter(names));
  return names;
}

constexpr auto actor_json = "id role node job state since_s mailbox messages messages_per_s busy handler_s waits_for waits_on "
                            "wait_deadline_s last_error parent "
                            "watched_by paused stuck ended fields: {}";

std::vector<command> looking_commands() {
  return {
      {"ps [ROLE|NODE]", "every actor: what it does, for how long, and whom it waits for", "ps worker",
       fmt::format("actors: [{{{}}}] silent: [{{node reason}}]", actor_json), from_look(ps), roles_and_nodes},
      {"top [ORDER]",
       "how far the jobs are, and every actor, sorted by busy, mailbox, messages or since: redrawn until a key is pressed",
       "top mailbox",
       fmt::format("sorted_by jobs: [{{number name state steps epochs steps_per_s samples_per_s}}] actors: [{{{}}}]", actor_json),
       top_now,
       [](session&) {
         return words{top_orders.begin(), top_orders.end()};
       },
       true},
      {"tree", "which actor spawned which, and which watches which", "tree",
       "cluster tree: [{id role node job state watched_by stuck children}]", tree_now},
      {"show ACTOR", "everything that one actor reports about itself", "show worker 0", actor_json, of_actor(from_look(show)),
       actor_names},
      {"why ACTOR", "the chain of waits from an actor down to its cause", "why coordinator",
       fmt::format("chain: [{{{}}}] causes rounds_per_s", actor_json), of_actor(why_now), actor_names},
      {"watch ACTOR|COMMAND", "an actor's report, or a command that only looks, redrawn every second until a key is pressed",
       "watch worker 0", "as `show ACTOR` or COMMAND", watch, commands_and_actors, true},
      {"mailbox ACTOR", "how many messages wait in its mailbox, how that changes per second, and when it will be empty",
       "mailbox shard 0", "id node seconds before mailbox change_per_s handled_per_s empty_in_s state since_s busy handler_s",
       of_actor(from_two_looks(mailbox)), actor_names},
      {"stragglers", "how long each part of a worker's round takes, and which part is unusual", "stragglers",
       "workers: [{id node compute_ms network_ms queue_ms verdict}] median_ms mad_ms rule", from_look(stragglers)},
      {"rates", "steps and samples a second of every job, messages a second of every actor, bytes a second of every lane",
       "rates",
       "seconds actors: [{id node messages_per_s}] jobs: [{number name steps_per_s samples_per_s}] lanes: [{from to sent_per_s "
       "received_per_s bytes_queued}]",
       from_two_looks(rates)},
      {"links", "every lane: throughput, what the peer copies from memory, queued bytes, credit, round trip", "links",
       "links: [{from to bytes_sent bytes_received sent_per_s received_per_s bytes_queued credit_bytes round_trip_s stalled_s "
       "away_s resumed silent_s bytes_lent}]",
       from_two_looks(links)},
      {"loss [JOB]", "training loss and accuracy against training time, drawn", "loss",
       "job name protocol state rounds: [{step samples seconds train_loss}] "
       "evaluations: [{step samples seconds train_loss test_loss test_accuracy}]",
       loss_now, job_numbers, true},
      {"events [JOB]", "what the cluster and its jobs reported, and when", "events", "events: [{number at job text}]", events_now,
       job_numbers},
      {"jobs", "the jobs that run, that wait, and how the last ones ended", "jobs",
       "jobs: [{number name protocol state steps samples epochs nodes}] "
       "ended: [{number name protocol state steps train_loss test_loss test_accuracy}]",
       jobs_now},
      {"nodes", "the cluster's nodes, missing ones included", "nodes", "nodes: [{name host state leaving_s job pid}]",
       from_look(nodes)},
  };
}

std::vector<command> own_commands() {
  return {
      {"help [COMMAND]", "this list, or everything about one command", "help ps", "commands: [{usage meaning example json}]",
       help, [](session&) { return command_names(); }},
      {"quit", "leave the console; the cluster keeps running", "quit", "", [](session&, const std::string&) { return answer{}; }},
  };
}

} // namespace

const std::vector<command>& commands() {
  static const auto all = [] {
    auto list = looking_commands();
    for (auto&& more : {order_commands(), control_commands(), own_commands()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

answer carry_out(session& client, const std::string& line) {
  const auto [name, rest] = first_word(line);
  const auto* found = find_command(name);
  if (found == nullptr)
    return no_such_command(name);
  if (rest.starts_with("--"))
    return wrong(fmt::format("flags stand on the command line: troupe console --cluster FILE -c {} {}", name, rest));
  auto once = [&, rest = rest] {
    client.measure();
    return found->carry_out(client, rest);
  };
  return found->live && client.interactive() && client.shows_on().terminal ? redraw(line, once) : once();
}

words completions(session& client, const std::string& before) {
  auto [name, rest] = first_word(before);
  if (name.empty())
    return command_names();
  if (name == "watch" && !rest.empty() && find_command(rest) != nullptr)
    name = rest;
  const auto* found = find_command(name);
  auto offered = found != nullptr && found->offers ? found->offers(client) : words{};
  for (auto& each : offered)
    std::ranges::replace(each, ' ', ':'); // a word of its own
  return offered;
}

words actor_names(session& client) {
  words names;
  if (const auto seen = client.look())
    for (const auto& actor : seen->actors())
      names.push_back(name_of(actor, *seen));
  return names;
}

words node_names(session& client) {
  words names;
  if (const auto view = client.ask<actors::cluster_view>(actors::cluster_query{}))
    for (const auto& member : view->members)
      names.push_back(member.node.name);
  return names;
}

words job_numbers(session& client) {
  words numbers;
  if (const auto known = client.ask<actors::history>(actors::history_query{}))
    for (const auto& job : known->jobs)
      numbers.push_back(std::to_string(job.number));
  return numbers;
}

} // namespace troupe::apps::console
