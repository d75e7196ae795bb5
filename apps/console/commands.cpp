// SPDX-License-Identifier: BSD-3-Clause
// The table of commands that look, and how a line is carried out.
#include "apps/console/commands.hpp"

#include <algorithm>
#include <sstream>

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

/// Of a line or of its rest.
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
  const auto likely = config::nearest(name, command_names());
  return wrong(fmt::format("there is no command \"{}\"{}; `help` lists them", name,
                           likely.empty() ? "" : fmt::format("; did you mean {}?", likely)));
}

carrier now(answer (*say)(const snapshot&)) {
  return [say](session& with, const std::string&) {
    const auto at = with.look();
    return at ? say(*at) : no_answer(at.error());
  };
}

carrier now(answer (*say)(const snapshot&, const std::string&)) {
  return [say](session& with, const std::string& rest) {
    const auto at = with.look();
    return at ? say(*at, rest) : no_answer(at.error());
  };
}

carrier of_actor(answer (*say)(const snapshot&, const std::string&)) {
  return [say, ask = now(say)](session& with, const std::string& rest) {
    return rest.empty() ? wrong("it wants an actor, such as worker 0; `ps` lists them") : ask(with, rest);
  };
}

/// Those that wait for each other, or only seem to, are looked at twice.
answer why_now(session& with, const std::string& actor) {
  if (actor.empty())
    return wrong("it wants an actor, such as worker 0; `ps` lists them");
  const auto at = with.look();
  if (!at)
    return no_answer(at.error());
  if (auto out = why(*at, actor); out.wrong || !out.json.at("causes").as_array().empty())
    return out;
  const auto looks = with.look_twice();
  return looks ? why(looks->first, looks->second, actor) : no_answer(looks.error());
}

answer top_now(session& with, const std::string& order) {
  const auto at = with.look();
  return at ? top(*at, with.before(), order) : no_answer(at.error());
}

answer tree_now(session& with, const std::string&) {
  const auto at = with.look();
  return at ? tree(*at, with.shows_on().unicode) : no_answer(at.error());
}

answer rates_now(session& with, const std::string&) {
  const auto looks = with.look_twice();
  return looks ? rates(looks->first, looks->second) : no_answer(looks.error());
}

answer links_now(session& with, const std::string&) {
  const auto looks = with.look_twice();
  return looks ? links(looks->first, looks->second) : no_answer(looks.error());
}

answer mailbox_now(session& with, const std::string& actor) {
  if (actor.empty())
    return wrong("it wants an actor, such as worker 0; `ps` lists them");
  const auto looks = with.look_twice();
  return looks ? mailbox(looks->first, looks->second, actor) : no_answer(looks.error());
}

/// The job of that name or number; of none, the newest that runs, or else the newest. 0: there is none.
caf::expected<std::uint64_t> job_meant(session& with, const std::string& job) {
  const auto known = with.ask<actors::history>(actors::history_query{});
  if (!known)
    return known.error();
  return find_job(known->jobs, job);
}

answer loss_now(session& with, const std::string& job) {
  const auto meant = job_meant(with, job);
  if (!meant)
    return no_answer(meant.error());
  if (*meant == 0)
    return no_such_job(job);
  const auto past = with.ask<actors::history>(actors::history_query{*meant});
  return past ? loss(*past, *meant, with.shows_on()) : no_answer(past.error());
}

answer events_now(session& with, const std::string& job) {
  std::uint64_t of = 0;
  if (!job.empty()) {
    const auto meant = job_meant(with, job);
    if (!meant)
      return no_answer(meant.error());
    if (*meant == 0)
      return no_such_job(job);
    of = *meant;
  }
  const auto past = with.ask<actors::history>(actors::history_query{of});
  return past ? events(*past, with.shows_on()) : no_answer(past.error());
}

answer jobs_now(session& with, const std::string&) {
  const auto view = with.ask<actors::cluster_view>(actors::cluster_query{});
  if (!view)
    return no_answer(view.error());
  const auto past = with.ask<actors::history>(actors::history_query{});
  return past ? jobs(*view, *past) : no_answer(past.error());
}

/// A command that looks, or an actor.
answer watch(session& with, const std::string& what) {
  const auto [name, rest] = first_word(what);
  const auto* inner = find_command(name);
  if (inner == nullptr)
    inner = find_command("show");
  else if (inner->changes || name == "watch" || name == "help" || name == "quit")
    return wrong("it wants an actor, or a command that looks: watch worker 0, watch links");
  return inner->carry_out(with, inner->name() == name ? rest : what);
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

words roles_and_nodes(session& with) {
  auto names = node_names(with);
  names.insert(names.end(), {"worker", "compute", "loader", "shard", "aggregator", "evaluator", "coordinator", "node"});
  return names;
}

words commands_and_actors(session& with) {
  auto names = command_names();
  std::ranges::copy(actor_names(with), std::back_inserter(names));
  return names;
}

constexpr auto actor_json =
    "id role node job state since_s mailbox messages messages_per_s busy handler_s waits_for waits_on last_error parent "
    "watched_by paused stuck ended fields: {}";

std::vector<command> looking_commands() {
  return {
      {"ps [ROLE|NODE]", "every actor: what it does, for how long, for whom it waits", "ps worker",
       fmt::format("actors: [{{{}}}] silent: [{{node reason}}]", actor_json), now(ps), roles_and_nodes},
      {"top [ORDER]",
       "how far the jobs are, and every actor, sorted by busy, mailbox, messages or since: redrawn until a key is pressed",
       "top mailbox",
       fmt::format("sorted_by jobs: [{{number name state steps epochs steps_per_s samples_per_s}}] actors: [{{{}}}]", actor_json),
       top_now,
       [](session&) {
         return words{top_orders.begin(), top_orders.end()};
       },
       true},
      {"tree", "who spawned whom, and who watches whom", "tree",
       "cluster tree: [{id role node job state watched_by stuck children}]", tree_now},
      {"show ACTOR", "all that one actor says of itself", "show worker 0", actor_json, of_actor(show), actor_names},
      {"why ACTOR", "the chain of waits from an actor down to its cause", "why coordinator",
       fmt::format("chain: [{{{}}}] causes rounds_per_s", actor_json), why_now, actor_names},
      {"watch ACTOR|COMMAND",
       "what an actor says of itself, or any of these that look, redrawn every second until a key is pressed", "watch worker 0",
       "as `show ACTOR` or COMMAND", watch, commands_and_actors, true},
      {"mailbox ACTOR", "what waits in its mailbox, how that changes in a second, when it will be empty", "mailbox shard 0",
       "id node seconds before mailbox change_per_s handled_per_s empty_in_s state since_s busy handler_s", mailbox_now,
       actor_names},
      {"stragglers", "workers by what their rounds take, and the part that is unusual", "stragglers",
       "workers: [{id node compute_ms network_ms queue_ms verdict}] median_ms mad_ms rule", now(stragglers)},
      {"rates", "steps and samples a second of every job, messages a second of every actor, bytes a second of every lane",
       "rates",
       "seconds actors: [{id node messages_per_s}] jobs: [{number name steps_per_s samples_per_s}] lanes: [{from to sent_per_s "
       "received_per_s bytes_queued}]",
       rates_now},
      {"links", "every lane: throughput, what waits, credit, round trip", "links",
       "links: [{from to bytes_sent bytes_received sent_per_s received_per_s bytes_queued credit_bytes round_trip_s stalled_s}]",
       links_now},
      {"loss [JOB]", "training loss and accuracy against training time, drawn", "loss",
       "job name protocol state rounds: [{step samples seconds train_loss}] "
       "evaluations: [{step samples seconds train_loss test_loss test_accuracy}]",
       loss_now, job_numbers, true},
      {"events [JOB]", "what the cluster and its jobs said, and when", "events", "events: [{number at job text}]", events_now,
       job_numbers},
      {"jobs", "what runs, what waits, and how the last ones ended", "jobs",
       "jobs: [{number name protocol state steps samples epochs nodes}] "
       "ended: [{number name protocol state steps train_loss test_loss test_accuracy}]",
       jobs_now},
      {"nodes", "the cluster's nodes, those that are missing too", "nodes", "nodes: [{name host state leaving_s job pid}]",
       now(nodes)},
  };
}

std::vector<command> own_commands() {
  return {
      {"help [COMMAND]", "this list, or all about a command", "help ps", "commands: [{usage meaning example json}]", help,
       [](session&) { return command_names(); }},
      {"quit", "leave the console; the cluster goes on", "quit", "", [](session&, const std::string&) { return answer{}; }},
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

answer carry_out(session& with, const std::string& line) {
  const auto [name, rest] = first_word(line);
  const auto* found = find_command(name);
  if (found == nullptr)
    return no_such_command(name);
  if (rest.starts_with("--"))
    return wrong(fmt::format("flags stand on the command line: troupe console --cluster FILE -c {} {}", name, rest));
  auto once = [&, rest = rest] {
    with.measure();
    return found->carry_out(with, rest);
  };
  return found->live && with.person() && with.shows_on().terminal ? redraw(line, once) : once();
}

words completions(session& with, const std::string& before) {
  auto [name, rest] = first_word(before);
  if (name.empty())
    return command_names();
  if (name == "watch" && !rest.empty() && find_command(rest) != nullptr)
    name = rest;
  const auto* found = find_command(name);
  auto offered = found != nullptr && found->offers ? found->offers(with) : words{};
  for (auto& each : offered)
    std::ranges::replace(each, ' ', ':'); // a word of its own
  return offered;
}

words actor_names(session& with) {
  words names;
  if (const auto at = with.look())
    for (const auto& actor : at->actors())
      names.push_back(name_of(actor, *at));
  return names;
}

words node_names(session& with) {
  words names;
  if (const auto view = with.ask<actors::cluster_view>(actors::cluster_query{}))
    for (const auto& member : view->members)
      names.push_back(member.node.name);
  return names;
}

words job_numbers(session& with) {
  words numbers;
  if (const auto known = with.ask<actors::history>(actors::history_query{}))
    for (const auto& job : known->jobs)
      numbers.push_back(std::to_string(job.number));
  return numbers;
}

} // namespace troupe::apps::console
