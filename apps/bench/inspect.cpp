// SPDX-License-Identifier: BSD-3-Clause
// Measures the cost of inspection.
#include "apps/bench/inspect.hpp"

#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/cluster/cluster_inspection.hpp"
#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/roles/activity.hpp"
#include "actors/system.hpp"
#include "apps/median.hpp"

namespace troupe::actors {

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr const char* cluster_key = "bench";
constexpr auto patience = 60s;

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

/// An idle actor.
class cell_state {
public:
  static inline const char* name = "troupe.bench-cell";
  explicit cell_state(measured_pointer<inspectable_actor> self) : self_(self) {}
  inspectable_actor::behavior_type make_behavior() {
    return {[this](const inspect_query&) { return self_->report(); }};
  }

private:
  measured_pointer<inspectable_actor> self_;
};

/// One end of a conversation between the benchmark and one of its processes, in values of fixed size.
class channel {
public:
  explicit channel(int descriptor) : descriptor_(descriptor) {}
  template <class Value>
  void say(const Value& value) const {
    if (::send(descriptor_, &value, sizeof value, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof value))
      throw std::runtime_error("a process of the benchmark has ended");
  }
  template <class Value>
  Value hear() const {
    Value value{};
    if (::recv(descriptor_, &value, sizeof value, MSG_WAITALL) != static_cast<ssize_t>(sizeof value))
      throw std::runtime_error("a process of the benchmark has ended");
    return value;
  }
  void close() const { ::close(descriptor_); }

private:
  int descriptor_;
};

/// A node: hears the coordinator's port, says that it has joined, hears how many actors to spawn, says how long that took. Lives
/// until it is killed.
void live(const channel& coordinator, const std::string& node_name) {
  const auto port = coordinator.hear<std::uint16_t>();
  system_config config{{.networked = true, .cluster_key = cluster_key}};
  caf::actor_system system{config};
  const node_control node = system.spawn<node_impl>(node_options{});
  auto cluster = reach<cluster_actor>(system, "127.0.0.1", port);
  if (!cluster)
    throw std::runtime_error(explain(cluster.error()));
  caf::scoped_actor self{system};
  self->request(*cluster, patience, node_hello{node_name, message_dialect(), static_cast<std::int32_t>(getpid())},
                node_actor{node})
      .receive([](std::uint32_t) {}, [](const caf::error& e) { throw std::runtime_error(explain(e)); });
  coordinator.say(true);
  const auto count = coordinator.hear<std::uint64_t>();
  std::vector<inspectable_actor> cells(count);
  const auto begin = steady::now();
  for (auto& cell : cells)
    cell = system.spawn<measured_impl<inspectable_actor, cell_state>>();
  coordinator.say(seconds_since(begin));
  for (std::size_t i = 0; i < cells.size(); ++i)
    caf::anon_send(node, shown_actor{cells[i], fmt::format("cell {}-{}", node_name, i), "cell"});
  for (;;)
    ::pause();
}

/// The nodes' processes; they end with this object.
class crowd {
public:
  explicit crowd(std::uint32_t nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i)
      start("n" + std::to_string(i));
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd() {
    for (const auto& each : members_) {
      ::kill(each.process, SIGKILL);
      ::waitpid(each.process, nullptr, 0);
      each.conversation.close();
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& each : members_)
      all.push_back(each.name);
    return all;
  }
  void join(std::uint16_t port) const {
    for (const auto& each : members_)
      each.conversation.say(port);
    for (const auto& each : members_)
      each.conversation.hear<bool>();
  }
  /// Actors a second, of all.
  double spawn(std::uint64_t each_spawns) const {
    for (const auto& each : members_)
      each.conversation.say(each_spawns);
    double longest = 0;
    for (const auto& each : members_)
      longest = std::max(longest, each.conversation.hear<double>());
    return static_cast<double>(each_spawns * members_.size()) / longest;
  }

private:
  struct member {
    std::string name;
    pid_t process;
    channel conversation;
  };

  void start(const std::string& name) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
      throw std::runtime_error("the benchmark cannot talk to its processes");
    const auto process = ::fork();
    if (process < 0)
      throw std::runtime_error("the benchmark cannot start its processes");
    if (process > 0) {
      ::close(ends[1]);
      members_.push_back({name, process, channel{ends[0]}});
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    try {
      live(channel{ends[1]}, name);
    } catch (const std::exception& e) {
      fmt::print(stderr, "troupe: {} of the benchmark: {}\n", name, e.what());
    }
    ::_exit(1);
  }

  std::vector<member> members_;
};

/// The client that submits the job and ignores its messages.
class deaf_state {
public:
  static inline const char* name = "troupe.bench-client";
  explicit deaf_state(client_actor::stateful_pointer<deaf_state>) {}
  client_actor::behavior_type make_behavior() {
    return {[](const job_waits&) {},        [](const job_begins&) {}, [](const progress&) {},
            [](const evaluation_point&) {}, [](const job_says&) {},   [](const job_result&) {}};
  }
};

job small_job(std::uint32_t nodes) {
  job small;
  small.name = "bench";
  small.model.layers = {"flatten", "linear 256 relu", "linear 10"};
  small.cluster = {.nodes = nodes + 1, .workers = nodes, .shards = 1};
  small.evaluate.every_s = 3600;
  small.stop.epochs = 1e6;
  return small;
}

/// A console, and the thread that looks while a turn lasts.
class onlooker {
public:
  onlooker(caf::actor_system& system, std::uint16_t port) : asker_(system) {
    auto reached = reach<cluster_actor>(system, "127.0.0.1", port);
    if (!reached)
      throw std::runtime_error(explain(reached.error()));
    cluster_ = *reached;
  }
  cluster_report look() {
    auto all = inspect_cluster(asker_, cluster_, patience);
    if (!all)
      throw std::runtime_error(explain(all.error()));
    return std::move(all->reports);
  }
  bool has_job() { return !view().jobs.empty(); }
  std::uint64_t steps() {
    const auto now = view();
    return now.jobs.empty() ? 0 : now.jobs.front().steps;
  }
  /// Steps a second of a turn.
  double turn(double seconds, bool looking) {
    const auto before = steps();
    const auto begin = steady::now();
    for (auto next = begin; seconds_since(begin) < seconds; next += 1s) {
      if (looking)
        look();
      std::this_thread::sleep_until(
          std::min(next + 1s, begin + std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(seconds))));
    }
    return static_cast<double>(steps() - before) / seconds_since(begin);
  }

private:
  cluster_view view() {
    cluster_view now;
    asker_->request(cluster_, patience, cluster_query{})
        .receive([&](cluster_view& said) { now = std::move(said); },
                 [](const caf::error& e) { throw std::runtime_error(explain(e)); });
    return now;
  }

  caf::scoped_actor asker_;
  cluster_actor cluster_;
};

void measure_overhead(onlooker& console, const inspect_bench_options& options, inspect_figures& out) {
  const auto begin = steady::now();
  while (console.steps() < 10)
    if (seconds_since(begin) > 60)
      throw std::runtime_error("the benchmark's job does not begin");
    else
      std::this_thread::sleep_for(10ms);
  std::vector<double> without, ratios;
  for (int turn = 0; turn < options.turns; ++turn) {
    const bool first = turn % 2 == 0; // the order alternates
    const auto one = console.turn(options.seconds, first), other = console.turn(options.seconds, !first);
    without.push_back(first ? other : one);
    ratios.push_back(first ? one / other : other / one);
  }
  out.steps_per_s = median(without);
  out.overhead = 1 - median(ratios);
}

} // namespace

inspect_figures bench_inspection(const inspect_bench_options& options) {
  const crowd nodes{options.nodes};
  system_config config{{.networked = true, .cluster_key = cluster_key}},
      console_config{{.networked = true, .cluster_key = cluster_key}};
  caf::actor_system system{config}, elsewhere{console_config};
  cluster_setup setup{.name = "bench", .nodes = {{"a", "127.0.0.1", true, false}}, .own = {}};
  for (const auto& each : nodes.names())
    setup.nodes.push_back({each, "127.0.0.1", false, true});
  const cluster_actor cluster = system.spawn<cluster_impl>(std::move(setup));
  const auto port = publish(system, cluster, 0, "127.0.0.1");
  if (!port)
    throw std::runtime_error(explain(port.error()));
  nodes.join(*port);
  inspect_figures out;
  {
    onlooker console{elsewhere, *port};
    const client_actor client = system.spawn<client_actor::stateful_impl<deaf_state>>();
    caf::scoped_actor self{system};
    self->request(cluster, patience, submit_job{small_job(options.nodes)}, client)
        .receive([](std::uint64_t) {}, [](const caf::error& e) { throw std::runtime_error(explain(e)); });
    measure_overhead(console, options, out);
    caf::anon_send_exit(client, caf::exit_reason::user_shutdown); // and its job with it
    while (console.has_job())
      std::this_thread::sleep_for(10ms);
    out.spawn_per_s = nodes.spawn(options.actors_per_node);
    std::vector<double> times;
    for (int i = 0; i <= options.snapshots; ++i) {
      const auto begin = steady::now();
      const auto all = console.look();
      const auto took = seconds_since(begin);
      out.actors = 0;
      for (const auto& node : all.nodes)
        out.actors += node.actors.size();
      if (i > 0) // the first one finds the cells still being shown
        times.push_back(took * 1e3);
    }
    out.snapshot_ms = median(times);
  }
  caf::anon_send_exit(cluster, caf::exit_reason::user_shutdown);
  return out;
}

} // namespace troupe::actors
