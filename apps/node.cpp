// SPDX-License-Identifier: BSD-3-Clause
// `troupe node`: one node of a cluster, its coordinator's or one that joins.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/cluster/decisions/council.hpp"
#include "actors/cluster/decisions/door.hpp"
#include "actors/cluster/decisions/reach_cluster.hpp"
#include "actors/errors.hpp"
#include "actors/http/metrics_server.hpp"
#include "actors/monitoring/metrics.hpp"
#include "actors/node/node_actor.hpp"
#include "actors/roles/rate_limited.hpp"
#include "actors/sockets/strangers.hpp"
#include "actors/system.hpp"
#include "actors/version.hpp"
#include "apps/cluster_check.hpp"
#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/config/slurm.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/processes.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

/// How long a node with --once waits for its coordinator; others wait for ever.
constexpr auto once_deadline = 20s;
constexpr auto answer_deadline = 20s;
/// How often it looks whether certificates have changed.
constexpr auto review_pause = 5000ms;
constexpr auto first_pause = 50ms, longest_pause = 2000ms;
/// A shutdown that hangs is a bug, but must not leave a process behind.
constexpr unsigned shutdown_seconds = 10;

/// Prints to standard error, with the time: operators watch a node by its log.
void log_as(const std::string& name, const std::string& text) {
  fmt::print(stderr, "{:%H:%M:%S} node {}: {}\n", fmt::localtime(std::time(nullptr)), name, text);
}

actors::system_options options_for(const config::cluster& cluster, const config::cluster_node& self,
                                   std::function<void(const std::string&)> say,
                                   std::function<void(const std::string&)> refused = {}) {
  return {.networked = true,
          .cluster_key = cluster.name,
          .listens = self.coordinator,
          .security = cluster.security.files(),
          .metrics = self.metrics_port != 0,
          .refused = std::move(refused),
          .say = std::move(say)};
}

/// How long a node may wait until it looks again whether certificates were revoked; for ever without any.
int pause_of(const actors::system_config& config) {
  return config.peers() ? static_cast<int>(review_pause.count()) : -1;
}

void end_revoked(actors::system_config& config, const std::function<void(const std::string&)>& log) {
  for (const auto& name : config.end_revoked())
    log(fmt::format("has ended the connection of \"{}\", whose certificate has been revoked", name));
}

/// A node's metrics for Prometheus, where its cluster file asks for them. Ends before the system.
class metrics {
public:
  metrics(caf::actor_system& system, const config::cluster& cluster, const config::cluster_node& self) {
    if (self.metrics_port == 0)
      return;
    board_ = std::make_shared<actors::metrics_registry>();
    try {
      server_ = actors::net::metrics_server::open(
          {.host = self.host, .port = self.metrics_port, .security = cluster.security.files(), .text = [&system, board = board_] {
             return board->text(system.metrics());
           }});
    } catch (const std::system_error& e) {
      fmt::print(stderr, "troupe: node {} cannot serve metrics at {}:{}: {}; give it another metrics_port, or none\n", self.name,
                 self.host, self.metrics_port, e.code().message());
    }
  }

  /// Null: no metrics were asked for.
  const std::shared_ptr<actors::metrics_registry>& board() const { return board_; }
  /// Whether they are served as asked for; if not, the reason has been printed.
  bool good() const { return !board_ || server_; }

private:
  std::shared_ptr<actors::metrics_registry> board_;
  std::unique_ptr<actors::net::metrics_server> server_;
};

/// Introduces a node to the cluster on request, and ends with the cluster: CAF drops a request to an actor whose process has
/// died, and the requester would wait for ever.
caf::behavior applicant(caf::event_based_actor* self, const actors::cluster_actor& cluster, const actors::node_hello& hello,
                        const actors::node_actor& node) {
  self->monitor(cluster);
  self->set_down_handler([self](const caf::down_msg& msg) { self->quit(msg.reason); });
  return {[=](caf::get_atom) {
    auto promise = self->make_response_promise<std::uint32_t>();
    self->request(cluster, answer_deadline, hello, node)
        .then(
            [=](std::uint32_t number) mutable {
              promise.deliver(number);
              self->quit();
            },
            [=](const caf::error& e) mutable {
              promise.deliver(e);
              self->quit();
            });
    return promise;
  }};
}

/// Asks until its node may leave: what a job keeps there would be lost. It owns all that it uses, since the main thread does not
/// wait for it: where the coordinator is gone already, `member` may be destroyed before this actor begins.
class farewell_state {
public:
  static inline const char* name = "troupe.farewell";

  farewell_state(caf::event_based_actor* self, actors::cluster_actor cluster, std::string node, const signal_waiter& signals)
      : self_(self), cluster_(std::move(cluster)), node_(std::move(node)), signals_(signals) {}

  caf::behavior make_behavior() {
    self_->monitor(cluster_);
    self_->set_down_handler([this](const caf::down_msg&) { signals_.announce(); }); // no one is left to allow it
    ask();
    return {[](caf::unit_t) {}};
  }

private:
  /// A cluster that refuses does not know this node, and has nothing on it.
  void ask() {
    self_->request(cluster_, caf::infinite, actors::leave_cluster{node_, true})
        .then([this] { signals_.announce(); },
              [this](const caf::error& e) {
                if (e == caf::sec::runtime_error)
                  return signals_.announce();
                self_->run_delayed(longest_pause, [this] { ask(); });
              });
  }

  caf::event_based_actor* self_;
  actors::cluster_actor cluster_;
  std::string node_;
  const signal_waiter& signals_; ///< outlives the actor system
};

/// A node that joins, again whenever its coordinator comes back.
class member {
public:
  member(const config::cluster& cluster, const config::cluster_node& self, const node_options& options, bool once,
         signal_waiter& signals)
      : added_(names_of(options.added)), coordinators_(cluster.coordinators()), self_(self), once_(once),
        quiet_(cluster.name.starts_with(embedded_name)), signals_(signals), config_(options_for(cluster, self, log())),
        system_(config_), metrics_(system_, cluster, self),
        node_(system_.spawn<actors::node_impl>(actors::node_options{.host = self.host,
                                                                    .lane_port = self.lane_port,
                                                                    .security = cluster.security.files(),
                                                                    .added = options.added,
                                                                    .metrics = metrics_.board(),
                                                                    .say = log(),
                                                                    .refused = actors::turned_away(noted())})) {}

  int run() {
    int code = metrics_.good() ? exit_done : exit_failed;
    while (code == exit_done && connect(code)) {
      watch();
      const auto woken = wait();
      if (woken.interrupted) {
        if (!woken.announced)
          leave();
        break;
      }
      caf::anon_send(node_, actors::stop_job{true, "the coordinator is gone"});
      if (once_)
        break;
      log_as(self_.name, "the coordinator is gone; waiting for it to come back");
    }
    alarm(shutdown_seconds);
    caf::anon_send_exit(watcher_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
    return code;
  }

private:
  /// For connections that it refuses.
  std::function<void(const std::string&)> noted() const {
    return [name = self_.name](const std::string& text) { log_as(name, text); };
  }
  /// For the messages of its actors.
  std::function<void(const std::string&)> log() const {
    return [name = self_.name, quiet = quiet_](const std::string& text) {
      if (!quiet)
        log_as(name, text);
    };
  }

  /// Waits until this node has joined. False: it ends with `code`.
  bool connect(int& code) {
    const auto began = steady::now();
    std::string said;
    for (auto pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
      bool for_good = false;
      const std::string why = join(for_good);
      if (why.empty()) {
        if (!quiet_)
          log_as(self_.name, fmt::format("joined; the coordinator is node {} at {}:{}", coordinator_->name, coordinator_->host,
                                         coordinator_->port));
        return true;
      }
      const auto waited = steady::now() - began;
      if (for_good || (once_ && waited > once_deadline)) {
        fmt::print(stderr, "troupe: node {} {}\n", self_.name, why);
        code = exit_failed;
        return false;
      }
      if (!quiet_ && std::exchange(said, why) != why)
        log_as(self_.name,
               fmt::format("{}; it tries again{}", why, once_ ? fmt::format(", for {} s", once_deadline.count()) : ""));
      if (signals_.wait(static_cast<int>(pause.count())).interrupted || signals_.interrupted()) {
        code = once_ ? exit_interrupted : exit_done; // without --once nothing is cut short
        return false;
      }
    }
  }

  /// Empty: it has joined. Else the reason; `for_good`: trying again is useless. Of several coordinators each is tried.
  std::string join(bool& for_good) {
    std::vector<std::string> reasons;
    for (const auto* each : coordinators_) {
      coordinator_ = each;
      reasons.push_back(join_at(for_good));
      if (reasons.back().empty() || for_good)
        return reasons.back();
    }
    return fmt::format("{}", fmt::join(reasons, "; "));
  }

  std::string join_at(bool& for_good) {
    const auto& at = *coordinator_;
    const bool one_of_several = coordinators_.size() > 1;
    auto reached = actors::reach_cluster(system_, {at.host, at.port, one_of_several});
    if (!reached) {
      for_good = reached.error() == caf::sec::incompatible_application_ids;
      if (one_of_several && reached.error() == caf::sec::runtime_error)
        return fmt::format("node {} is no leader: {}", at.name, actors::explain(reached.error()));
      const bool silent = one_of_several && reached.error() == caf::sec::connection_timeout;
      const auto why = silent ? "" : actors::what_keeps_out(system_, reached.error(), at.host, at.port);
      return fmt::format("cannot reach the coordinator, node {} at {}:{}: {}", at.name, at.host, at.port,
                         why.empty() ? actors::explain(reached.error()) : why);
    }
    cluster_ = *reached;
    std::string why;
    caf::scoped_actor asker{system_};
    const actors::node_hello hello{self_.name, actors::version, static_cast<std::int32_t>(getpid()), added_};
    asker->request(system_.spawn(applicant, cluster_, hello, actors::node_actor{node_}), caf::infinite, caf::get_atom_v)
        .receive([](std::uint32_t) {},
                 [&](const caf::error& e) {
                   why = "was refused: " + actors::explain(e);
                   for_good = e == caf::sec::runtime_error;
                 });
    return why;
  }

  void watch() {
    caf::anon_send_exit(watcher_, caf::exit_reason::user_shutdown);
    watcher_ = system_.spawn(
        [&signals = signals_, watched = cluster_](caf::event_based_actor* me) { // as farewell_state, it uses nothing of `member`
          me->monitor(watched);
          me->set_down_handler([&signals](const caf::down_msg&) { signals.announce(); });
          return caf::behavior{[](caf::unit_t) {}};
        });
  }

  signal_waiter::woken wait() {
    for (;; end_revoked(config_, log()))
      if (const auto woken = signals_.wait(pause_of(config_)); woken.interrupted || woken.announced)
        return woken;
  }

  /// An orderly end: its workers leave their job; parameters that it holds stay until their job ends.
  void leave() {
    if (once_)
      return;
    log_as(self_.name, "leaves the cluster; a second Ctrl-C ends it at once");
    auto farewell = system_.spawn<caf::stateful_actor<farewell_state>>(cluster_, self_.name, std::cref(signals_));
    wait();
    caf::anon_send_exit(farewell, caf::exit_reason::user_shutdown);
  }

  std::vector<std::string> added_;
  std::vector<const config::cluster_node*> coordinators_;
  const config::cluster_node* coordinator_ = nullptr; ///< that was tried last
  const config::cluster_node& self_;
  bool once_;
  bool quiet_; ///< a child of `run`, which prints what matters
  signal_waiter& signals_;
  actors::system_config config_;
  caf::actor_system system_;
  metrics metrics_;
  actors::node_control node_;
  actors::cluster_actor cluster_;
  caf::actor watcher_;
};

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::min(seconds, 1e9) * 1000)};
}

/// What a coordinator's journal has: of a single one its jobs, of one of several its part in the decisions.
struct journal_of {
  std::shared_ptr<actors::kept_jobs> kept;
  std::shared_ptr<actors::durable_ledger> members;
  std::uint64_t torn_bytes() const { return members ? members->torn_bytes() : kept ? kept->ledger->torn_bytes() : 0; }
};

std::vector<std::string> names_of_coordinators(const config::cluster& cluster) {
  std::vector<std::string> out;
  for (const auto* each : cluster.coordinators())
    out.push_back(each->name);
  return out;
}

std::uint32_t number_among_coordinators(const config::cluster& cluster, const config::cluster_node& self) {
  const auto names = names_of_coordinators(cluster);
  return static_cast<std::uint32_t>(std::ranges::find(names, self.name) - names.begin());
}

journal_of open_journal(const config::cluster& cluster, const config::cluster_node& self) {
  if (cluster.journal.empty())
    return {};
  const auto names = names_of_coordinators(cluster);
  if (names.size() == 1)
    return {actors::open_kept_jobs(cluster.journal, milliseconds_of(cluster.orphan_s)), {}};
  return {{}, actors::open_council_ledger(cluster.journal, number_among_coordinators(cluster, self), names)};
}

/// Coordinators that do not lead take no part in jobs.
std::vector<actors::node_description> descriptions_for(const config::cluster& cluster, const config::cluster_node& self) {
  auto out = node_descriptions(cluster);
  std::erase_if(out, [&](const auto& each) { return each.name != self.name && cluster.find(each.name)->coordinator; });
  return out;
}

/// Has the cluster's actor listen, or among several coordinators the door behind which it is while this one leads.
caf::expected<std::uint16_t> listen(caf::actor_system& system, const config::cluster& cluster, const config::cluster_node& self,
                                    actors::cluster_setup setup, const journal_of& jobs, caf::actor& listener) {
  if (!jobs.members) {
    const auto single = system.spawn<actors::cluster_impl>(std::move(setup));
    listener = caf::actor_cast<caf::actor>(single);
    return actors::publish(system, actors::cluster_actor{single}, self.port, self.host);
  }
  actors::door_setup door{.cluster = std::move(setup),
                          .journal = cluster.journal,
                          .orphan = milliseconds_of(cluster.orphan_s),
                          .members = {},
                          .self = number_among_coordinators(cluster, self),
                          .ledger = jobs.members};
  for (const auto* each : cluster.coordinators())
    door.members.push_back({each->name, each->host, each->port});
  const auto one = system.spawn<actors::door_impl>(std::move(door));
  listener = caf::actor_cast<caf::actor>(one);
  return actors::publish(system, actors::council_door{one}, self.port, self.host);
}

/// The coordinator's node: the cluster lives as long as it does, or as its journal. A `job` file is submitted from here by a
/// child process, and the node ends with that job.
int serve(const config::cluster& cluster, const config::cluster_node& self, const actors::extensions& added,
          signal_waiter& signals, const std::string& job = {}) {
  const auto log = [name = self.name](const std::string& text) { log_as(name, text); };
  journal_of jobs;
  try {
    jobs = open_journal(cluster, self);
  } catch (const std::exception& e) {
    fmt::print(stderr, "troupe: node {} cannot use its journal: {}\n", self.name, e.what());
    return exit_failed;
  }
  if (const auto torn = jobs.torn_bytes(); torn > 0)
    log(fmt::format("its last process died in a decision that nobody was told of: {} bytes at the end of the journal are cut off",
                    torn));
  const auto refused = actors::turned_away(log);
  const actors::net::refusal_watch watch{refused}; // on the control plane
  actors::system_config config{options_for(cluster, self, log, refused)};
  caf::actor_system system{config};
  const metrics served{system, cluster, self};
  if (!served.good())
    return exit_failed;
  actors::cluster_setup setup{.name = cluster.name,
                              .nodes = {},
                              .own = {.host = self.host,
                                      .security = cluster.security.files(),
                                      .added = added,
                                      .metrics = served.board(),
                                      .say = log,
                                      .refused = refused},
                              .say = log,
                              .peers = config.peers(),
                              .kept = jobs.kept};
  setup.nodes = descriptions_for(cluster, self);
  caf::actor actor;
  if (const auto port = listen(system, cluster, self, std::move(setup), jobs, actor); !port) {
    fmt::print(stderr, "troupe: node {} cannot listen on {}:{}: {}\n", self.name, self.host, self.port,
               actors::explain(port.error()));
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    return exit_failed;
  }
  const auto coordinators = cluster.coordinators().size();
  log_as(self.name,
         fmt::format("{} of cluster {} at {}:{}; {} may join",
                     coordinators == 1 ? "coordinator" : fmt::format("one of {} coordinators", coordinators), cluster.name,
                     self.host, self.port,
                     cluster.nodes.size() == coordinators ? std::string{"no other node"}
                                                          : fmt::format("{} more", cluster.nodes.size() - coordinators)));
  if (self.lane_port != 0)
    log_as(self.name,
           fmt::format("lane_port = {} is not used: lanes go from the coordinator's node to the others", self.lane_port));
  int code = job.empty() ? exit_done : exit_interrupted; // a signal before the job's end cuts the job short
  child_processes children;
  if (!job.empty())
    children.start("run", {"run", job, "--cluster", fmt::format("{}.toml", cluster.name), "--json"});
  for (; !signals.wait(pause_of(config)).interrupted; end_revoked(config, log))
    if (const auto end = children.reap()) {
      code = end->code;
      break;
    }
  log_as(self.name, jobs.members ? "ends; the other coordinators go on"
                    : jobs.kept  ? "ends; its jobs go on when it is started again"
                                 : "ends; so does the cluster");
  alarm(shutdown_seconds);
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  return code;
}

/// The addresses that Slurm has for the hosts of a list, asked for all at once. Host names that tests make up do not resolve.
std::map<std::string, std::string> slurm_addresses(const std::string& list) {
  std::map<std::string, std::string> found;
  auto* pipe = popen(fmt::format("scontrol show node '{}' --oneliner 2>/dev/null", list).c_str(), "r");
  if (pipe == nullptr)
    return found;
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, pipe) > 0) {
    const auto value_of = [text = std::string{line}](const std::string& key) {
      const auto begin = text.find(key);
      return begin == std::string::npos ? std::string{}
                                        : text.substr(begin + key.size(), text.find(' ', begin) - begin - key.size());
    };
    if (const auto address = value_of("NodeAddr="); !address.empty())
      found[value_of("NodeName=")] = address;
  }
  std::free(line);
  pclose(pipe);
  return found;
}

/// A task of a Slurm step. The first task writes the cluster file into the working folder, for `run` and `console`.
int slurm_node(const node_options& options) {
  config::cluster_security security;
  security.insecure = options.insecure;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string{value == nullptr ? "" : value};
  };
  if (!options.certs.empty()) {
    security.ca = options.certs + "/ca.pem";
    security.certificate = security.key = options.certs; // until the node's name is known
  }
  std::optional<std::map<std::string, std::string>> addresses;
  const auto address_of = [&](const std::string& host) { // host names only: the list holds nothing that a shell would interpret
    if (!addresses)
      addresses = slurm_addresses(variable("SLURM_STEP_NODELIST"));
    const auto known = addresses->find(host);
    return known == addresses->end() ? host : known->second;
  };
  auto step = config::cluster_of_slurm(variable, address_of, security);
  if (!step)
    return refuse(step.error());
  if (!options.certs.empty()) {
    step->nodes.security.certificate = fmt::format("{}/{}.pem", options.certs, step->self);
    step->nodes.security.key = fmt::format("{}/{}.key", options.certs, step->self);
  }
  const auto& self = *step->nodes.find(step->self);
  signal_waiter signals;
  actors::init_message_types();
  if (!self.coordinator)
    return member{step->nodes, self, options, true, signals}.run();
  const auto file = fmt::format("{}.toml", step->nodes.name);
  std::ofstream out{file};
  out << config::to_toml(step->nodes);
  out.close();
  if (!out)
    return refuse({{{file, "cannot be written; run and console need it to find the cluster"}}});
  const int code = serve(step->nodes, self, options.added, signals, options.run);
  std::remove(file.c_str());
  return code;
}

} // namespace

int execute(const node_options& options) {
  if (options.slurm)
    return slurm_node(options);
  const auto cluster = config::load_cluster(options.cluster, options.name);
  if (!cluster)
    return refuse(cluster.error());
  const auto* self = cluster->find(options.name);
  if (self == nullptr)
    return refuse(
        {{{options.cluster, fmt::format("it has no node \"{}\"; --name takes one of its [[node]] names", options.name)}}});
  signal_waiter signals;
  actors::init_message_types();
  return self->coordinator ? serve(*cluster, *self, options.added, signals)
                           : member{*cluster, *self, options, options.once, signals}.run();
}

} // namespace troupe::apps
