// SPDX-License-Identifier: BSD-3-Clause
// `troupe node`: one node of a cluster, its coordinator's or one that joins.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>

#include <caf/actor_system.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/cluster/decisions/council.hpp"
#include "actors/cluster/decisions/door.hpp"
#include "actors/errors.hpp"
#include "actors/http/metrics_server.hpp"
#include "actors/monitoring/metrics.hpp"
#include "actors/node/node_actor.hpp"
#include "actors/roles/rate_limited.hpp"
#include "actors/sockets/strangers.hpp"
#include "actors/system.hpp"
#include "apps/bounded_system.hpp"
#include "apps/cluster_check.hpp"
#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/embedded_cluster.hpp"
#include "apps/membership.hpp"
#include "apps/processes.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"
#include "apps/slurm_task.hpp"

namespace troupe::apps {

namespace {

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

double orphan_s_of(const config::cluster& cluster) {
  return cluster.journal.empty() ? 0 : cluster.orphan_s;
}

membership_options member_options(const config::cluster& cluster, const actors::extensions& added, bool once) {
  return {.added = names_of(added), .once = once, .outlives = orphan_s_of(cluster) > 0, .door = {}};
}

void print_failure(const membership& joined, int code) {
  if (code == exit_failed && !joined.why().empty())
    fmt::print(stderr, "troupe: {}\n", joined.why());
}

/// A process that is a node, and no coordinator.
class member {
public:
  member(const config::cluster& cluster, const config::cluster_node& self, const actors::extensions& added,
         membership_options how, bool quiet, signal_waiter& signals)
      : name_(self.name), quiet_(quiet || cluster.name.starts_with(embedded_name)),
        bounded_(options_for(cluster, self, log()), noted()), metrics_(bounded_.system(), cluster, self),
        node_(bounded_.system().spawn<actors::node_impl>(options_of(cluster, self, added))),
        membership_(bounded_.system(), bounded_.config(), cluster, self, std::move(how), node_, signals, log()),
        ends_process_(signals.takes_signals()) {}

  int run() {
    const int code = metrics_.good() ? membership_.run() : exit_failed;
    if (ends_process_)
      print_failure(membership_, code);
    caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
    return code;
  }
  const std::string& why() const { return membership_.why(); }

private:
  actors::node_options options_of(const config::cluster& cluster, const config::cluster_node& self,
                                  const actors::extensions& added) const {
    auto out = lanes_of(cluster, self);
    out.lane_port = self.lane_port;
    out.added = added;
    out.metrics = metrics_.board();
    out.say = log();
    out.refused = actors::turned_away(noted());
    return out;
  }
  /// For connections that it refuses, and threads that do not end.
  std::function<void(const std::string&)> noted() const {
    return [name = name_](const std::string& text) { log_as(name, text); };
  }
  /// For the messages of its actors.
  std::function<void(const std::string&)> log() const {
    return [name = name_, quiet = quiet_](const std::string& text) {
      if (!quiet)
        log_as(name, text);
    };
  }

  const std::string name_;
  const bool quiet_;
  bounded_system bounded_;
  metrics metrics_;
  actors::node_control node_;
  membership membership_;
  bool ends_process_;
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

/// What listens at a coordinator's port: the cluster's actor, or among several coordinators the door behind which it is while
/// this one leads.
struct listener {
  caf::actor actor;
  std::optional<actors::council_door> door;
};

caf::expected<std::uint16_t> listen(caf::actor_system& system, const config::cluster& cluster, const config::cluster_node& self,
                                    actors::cluster_setup setup, const journal_of& jobs, listener& out) {
  if (!jobs.members) {
    const auto single = system.spawn<actors::cluster_impl>(std::move(setup));
    out.actor = caf::actor_cast<caf::actor>(single);
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
  out.actor = caf::actor_cast<caf::actor>(one);
  out.door = actors::council_door{one};
  return actors::publish(system, *out.door, self.port, self.host);
}

/// Until the process is to end, or the `job` that it runs has ended.
int wait_for_end(actors::system_config& config, const config::cluster& cluster, const std::string& job, signal_waiter& signals,
                 int code, const std::function<void(const std::string&)>& log) {
  child_processes children;
  if (!job.empty())
    children.start("run", {"run", job, "--cluster", fmt::format("{}.toml", cluster.name), "--json"});
  for (; !signals.wait(pause_of(config)).interrupted; end_revoked(config, log))
    if (const auto end = children.reap())
      return end->code;
  return code;
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
  bounded_system bounded{options_for(cluster, self, log, refused), log};
  auto& config = bounded.config();
  auto& system = bounded.system();
  const metrics served{system, cluster, self};
  if (!served.good())
    return exit_failed;
  actors::cluster_setup setup{
      .name = cluster.name, .nodes = {}, .own = lanes_of(cluster, self), .say = log, .peers = config.peers(), .kept = jobs.kept};
  setup.own.added = added;
  setup.own.metrics = served.board();
  setup.own.say = log;
  setup.own.refused = refused;
  setup.nodes = node_descriptions(cluster, self.name);
  auto own = setup.own;
  own.lane_port = self.lane_port;
  if (jobs.members) // its node takes part in the jobs of whichever coordinator leads
    setup.node = system.spawn<actors::node_impl>(own);
  const auto node = setup.node;
  listener here;
  if (const auto port = listen(system, cluster, self, std::move(setup), jobs, here); !port) {
    fmt::print(stderr, "troupe: node {} cannot listen on {}:{}: {}\n", self.name, self.host, self.port,
               actors::explain(port.error()));
    caf::anon_send_exit(here.actor, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
    return exit_failed;
  }
  const auto coordinators = cluster.coordinators().size();
  log_as(self.name,
         fmt::format("{} of cluster {} at {}:{}; {} may join",
                     coordinators == 1 ? "coordinator" : fmt::format("one of {} coordinators", coordinators), cluster.name,
                     self.host, self.port,
                     cluster.nodes.size() == coordinators ? std::string{"no other node"}
                                                          : fmt::format("{} more", cluster.nodes.size() - coordinators)));
  if (self.lane_port != 0 && !jobs.members)
    log_as(self.name,
           fmt::format("lane_port = {} is not used: lanes go from the coordinator's node to the others", self.lane_port));
  int code = job.empty() ? exit_done : exit_interrupted; // a signal before the job's end cuts the job short
  if (here.door) {
    membership joined{system,
                      config,
                      cluster,
                      self,
                      {.added = names_of(added), .outlives = true, .door = here.door},
                      caf::actor_cast<actors::node_control>(node),
                      signals,
                      log};
    code = joined.run();
    print_failure(joined, code);
  } else {
    code = wait_for_end(config, cluster, job, signals, code, log);
  }
  log_as(self.name, jobs.members ? "ends; the other coordinators go on"
                    : jobs.kept  ? "ends; its jobs go on when it is started again"
                                 : "ends; so does the cluster");
  caf::anon_send_exit(here.actor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  return code;
}

/// A task of a Slurm step. The first task writes the cluster file into the working folder, for `run` and `console`.
int slurm_node(const node_options& options) {
  const auto step = this_slurm_task(options.certs, options.insecure);
  if (!step)
    return refuse(step.error());
  const auto& self = *step->nodes.find(step->self);
  signal_waiter signals;
  actors::init_message_types();
  if (!self.coordinator)
    return member{step->nodes, self, options.added, member_options(step->nodes, options.added, true), false, signals}.run();
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

std::string run_member(const member_part& part, signal_waiter& signals) {
  actors::init_message_types();
  auto how = member_options(part.cluster, part.added, true);
  how.patience = part.patience;
  how.parting = part.parting;
  member here{part.cluster, *part.cluster.find(part.self), part.added, std::move(how), part.quiet, signals};
  here.run();
  return here.why();
}

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
  return self->coordinator
             ? serve(*cluster, *self, options.added, signals)
             : member{*cluster, *self, options.added, member_options(*cluster, options.added, options.once), false, signals}
                   .run();
}

} // namespace troupe::apps
