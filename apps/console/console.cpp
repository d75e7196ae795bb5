// SPDX-License-Identifier: BSD-3-Clause
// `troupe console`: a person, or a script, asks a running cluster what it does and why.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>

#include <boost/json.hpp>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <editline/readline.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "actors/cluster_inspection.hpp"
#include "actors/errors.hpp"
#include "apps/cluster_connection.hpp"
#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/config/suggest.hpp"
#include "apps/console/snapshot.hpp"
#include "apps/report.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;
using console::answer;
using console::snapshot;

constexpr auto patience = 10s;
constexpr auto redraw_every = 1s;

struct command {
  std::string usage, meaning;
};
const std::vector<command>& commands() {
  static const std::vector<command> all{
    {"ps [ROLE|NODE]", "every actor: what it does, for how long, for whom it waits"},
    {"show ACTOR", "all that one actor says of itself: show worker 2"},
    {"why ACTOR", "the chain of waits from an actor down to its cause"},
    {"stragglers", "workers by the time of their last step"},
    {"nodes", "the cluster's nodes, those that are missing too"},
    {"jobs", "what runs and what waits"},
    {"links", "bytes over every lane"},
    {"watch COMMAND", "any of these, redrawn every second until a key is pressed"},
    {"stop JOB", "end a job in order; its results so far go to whoever submitted it"},
    {"drain NODE", "take a node's workers out of their job and place nothing there any more"},
    {"help [COMMAND]", "this list"},
    {"quit", "leave the console; the cluster goes on"},
  };
  return all;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const auto& each : commands())
    names.push_back(each.usage.substr(0, each.usage.find(' ')));
  return names;
}

/// A connection to a cluster, and the commands.
class session {
public:
  session(caf::actor_system& system, actors::cluster_actor cluster, bool asks_first)
      : asker_(system), cluster_(std::move(cluster)), asks_first_(asks_first) {}

  answer run(const std::string& line) {
    std::istringstream words{line};
    std::string name, rest;
    words >> name;
    std::getline(words >> std::ws, rest);
    if (name == "help")
      return help(rest);
    if (name == "stop")
      return stop(rest);
    if (name == "drain")
      return drain(rest);
    if (name == "watch")
      return watch(rest);
    return look(name, rest);
  }

  /// Names of actors, for completion.
  std::vector<std::string> names() {
    std::vector<std::string> all;
    snapshot at;
    if (take(at).empty())
      for (const auto& actor : at.actors())
        all.push_back(console::name_of(actor, at));
    return all;
  }

private:
  static answer wrong(const std::string& text) { return {text + "\n", {{"error", text}}, true}; }

  /// Empty, or why the cluster does not answer.
  std::string take(snapshot& at) {
    std::string why;
    auto failed = [&](const caf::error& e) { why = "the cluster does not answer: " + actors::explain(e); };
    asker_->request(cluster_, patience, actors::cluster_query{}).receive([&](actors::cluster_view& view) { at.cluster = std::move(view); }, failed);
    if (!why.empty())
      return why;
    if (auto all = actors::inspect_cluster(asker_, cluster_, patience))
      at.reports = std::move(*all);
    else
      failed(all.error());
    return why;
  }

  answer look(const std::string& name, const std::string& rest) {
    const std::map<std::string, std::function<answer(const snapshot&)>> looks{
      {"ps", [&](const snapshot& at) { return console::ps(at, rest); }},
      {"show", [&](const snapshot& at) { return console::show(at, rest); }},
      {"why", [&](const snapshot& at) { return console::why(at, rest); }},
      {"stragglers", console::stragglers},
      {"nodes", console::nodes},
      {"jobs", console::jobs},
      {"links", console::links},
    };
    const auto found = looks.find(name);
    if (found == looks.end()) {
      const auto likely = config::nearest(name, command_names());
      return wrong(fmt::format("there is no command \"{}\"{}; `help` lists them", name, likely.empty() ? "" : fmt::format("; did you mean {}?", likely)));
    }
    if (rest.empty() && (name == "show" || name == "why"))
      return wrong(fmt::format("{} wants an actor: {} worker 0", name, name));
    snapshot at;
    if (auto why = take(at); !why.empty())
      return wrong(why);
    return found->second(at);
  }

  static answer help(const std::string& about) {
    std::vector<std::vector<std::string>> rows;
    boost::json::array list;
    for (const auto& [usage, meaning] : commands())
      if (about.empty() || usage.substr(0, usage.find(' ')) == about) {
        rows.push_back({usage, meaning});
        list.push_back({{"usage", usage}, {"meaning", meaning}});
      }
    if (rows.empty())
      return wrong(fmt::format("there is no command \"{}\"; `help` lists them", about));
    return {table(rows), {{"commands", std::move(list)}}};
  }

  bool agreed(const std::string& question) const {
    if (!asks_first_)
      return true;
    char* line = readline((question + " [y/N] ").c_str());
    const std::string said = line == nullptr ? "" : line;
    std::free(line);
    return said == "y" || said == "yes";
  }

  answer stop(const std::string& job) {
    snapshot at;
    if (auto why = take(at); !why.empty())
      return wrong(why);
    for (const auto& each : at.cluster.jobs)
      if (std::to_string(each.number) == job || each.name == job) {
        if (!agreed(fmt::format("stop job {} ({}, step {})?", each.number, each.name, each.steps)))
          return {"nothing was done\n", {{"done", false}}};
        asker_->send(cluster_, actors::cancel_job{each.number});
        return {fmt::format("job {} ends\n", each.number), {{"done", true}, {"job", each.number}}};
      }
    return wrong(fmt::format("there is no job \"{}\"; `jobs` lists them", job));
  }

  answer drain(const std::string& node) {
    if (!agreed(fmt::format("take node {} out of its job?", node)))
      return {"nothing was done\n", {{"done", false}}};
    answer out{fmt::format("node {} is drained\n", node), {{"done", true}, {"node", node}}};
    asker_->request(cluster_, patience, actors::leave_cluster{node}).receive([] {}, [&](const caf::error& e) {
      out = e == caf::sec::request_timeout ? answer{fmt::format("node {} holds what its job needs; it leaves when that ends\n", node), {{"done", false}, {"node", node}}}
                                            : wrong(actors::explain(e));
    });
    return out;
  }

  answer watch(const std::string& line) {
    if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)
      return wrong("watch wants a terminal; elsewhere ask again when you want to know");
    if (line.empty() || line.starts_with("watch") || line.starts_with("stop") || line.starts_with("drain"))
      return wrong("watch wants a command that looks: watch ps");
    for (;;) {
      const auto now = run(line);
      if (now.wrong)
        return now;
      fmt::print("\x1b[H\x1b[2J{}\npress Enter to stop watching\n", now.text);
      std::fflush(stdout);
      pollfd key{STDIN_FILENO, POLLIN, 0};
      if (poll(&key, 1, std::chrono::milliseconds{redraw_every}.count()) != 0) {
        char pressed[64];
        [[maybe_unused]] auto taken = read(STDIN_FILENO, pressed, sizeof pressed);
        return {};
      }
    }
  }

  caf::scoped_actor asker_;
  actors::cluster_actor cluster_;
  bool asks_first_;
};

/// What Tab offers; libedit asks through a plain function.
session* completing = nullptr;

char* next_match(const char* text, int state) {
  static std::vector<std::string> matches;
  static std::size_t at = 0;
  if (state == 0) {
    matches.clear();
    at = 0;
    auto candidates = command_names();
    const std::string line = rl_line_buffer == nullptr ? "" : rl_line_buffer;
    if (line.find(' ') != std::string::npos) {
      candidates.clear();
      for (auto name : completing->names()) {
        std::ranges::replace(name, ' ', ':'); // a word of its own
        candidates.push_back(name);
      }
    }
    for (const auto& each : candidates)
      if (each.starts_with(text))
        matches.push_back(each);
  }
  return at < matches.size() ? strdup(matches[at++].c_str()) : nullptr;
}

char** complete(const char* text, int, int) { return rl_completion_matches(text, next_match); }

std::string history_file() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string{home} + "/.troupe_history";
}

int talk(session& with) {
  completing = &with;
  rl_attempted_completion_function = complete;
  using_history();
  const auto file = history_file();
  read_history(file.c_str());
  while (char* read = readline("troupe> ")) {
    const std::string line = read;
    std::free(read);
    if (line == "quit" || line == "exit")
      break;
    if (line.find_first_not_of(' ') == std::string::npos)
      continue;
    add_history(line.c_str());
    fmt::print("{}", with.run(line).text);
    std::fflush(stdout);
  }
  write_history(file.c_str());
  return exit_done;
}

/// One object a command; the exit code says whether all of them could be carried out.
int script(session& with, const std::vector<std::string>& lines, bool json) {
  int code = exit_done;
  for (const auto& line : lines) {
    const auto out = with.run(line);
    if (json)
      print_json(out.json);
    else
      fmt::print(out.wrong ? stderr : stdout, "{}", out.text);
    if (out.wrong)
      code = exit_failed;
  }
  return code;
}

int talk_to(cluster_connection&& connection, const console_options& options) {
  if (!connection) {
    fmt::print(stderr, "troupe: {}\n", connection.why_not());
    return exit_failed;
  }
  const bool person = options.commands.empty() && isatty(STDIN_FILENO) == 1;
  session with{connection.system(), connection.cluster(), person};
  if (!options.commands.empty())
    return script(with, options.commands, options.json);
  if (person)
    return talk(with);
  std::vector<std::string> lines;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, stdin) > 0)
    if (std::string text{line, strcspn(line, "\n")}; !text.empty())
      lines.push_back(std::move(text));
  std::free(line);
  return script(with, lines, options.json);
}

} // namespace

int console_command(const console_options& options) {
  if (options.address.empty() == options.cluster.empty())
    return refuse({{{"console", "wants HOST:PORT, where a coordinator listens, or --cluster CLUSTER.toml"}}});
  if (options.cluster.empty()) {
    const auto colon = options.address.rfind(':');
    std::uint16_t port = 0;
    const auto end = options.address.data() + options.address.size();
    if (colon == std::string::npos || colon == 0 || std::from_chars(options.address.data() + colon + 1, end, port).ptr != end || port == 0)
      return refuse({{{options.address, "is no HOST:PORT, such as 127.0.0.1:4000; a run prints its own"}}});
    return talk_to(cluster_connection{options.address.substr(0, colon), port}, options);
  }
  const auto where = config::load_cluster(options.cluster);
  return where ? talk_to(cluster_connection{*where}, options) : refuse(where.error());
}

} // namespace troupe::apps
