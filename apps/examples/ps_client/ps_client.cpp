// SPDX-License-Identifier: BSD-3-Clause
// A client that uses a running job as a parameter server: an actor reads the parameters from the shards, on any hosts, and prints
// how far each has moved. ps_client CLUSTER.toml [TIMES]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>

#include "apps/cluster_connection.hpp"

namespace {

using namespace std::chrono_literals;
using namespace troupe::actors;

constexpr std::chrono::milliseconds patience = 10s, between = 200ms;

/// It gets only its own reminders; everything else is an answer to one of its requests.
using watcher_actor = caf::typed_actor<caf::result<void>(caf::tick_atom)>;

class watcher_state {
public:
  static inline const char* name = "watcher";

  watcher_state(watcher_actor::stateful_pointer<watcher_state> self, cluster_actor cluster, int times)
      : self_(self), cluster_(std::move(cluster)), times_(times) {}

  watcher_actor::behavior_type make_behavior() {
    self_->send(self_, caf::tick_atom_v);
    return {[this](caf::tick_atom) { job_.shards.empty() ? find() : pull(); }};
  }

private:
  /// The coordinator knows the shards of its jobs; their handles reach them on other hosts too.
  void find() {
    self_->request(cluster_, patience, shards_query{})
        .then(
            [this](shards_view& job) {
              job_ = std::move(job);
              for (const auto& shard : job_.shards)
                fmt::print("shard {} on node {}: parameters {} to {} of job {}\n", shard.index, shard.node, shard.begin,
                           shard.end, job_.name);
              again();
            },
            [this](const caf::error&) { again(); }); // no job runs yet
  }

  /// Reads all parameters again, from every shard at once.
  void pull() {
    now_.assign(job_.shards.back().end, 0);
    missing_ = job_.shards.size();
    for (const auto& shard : job_.shards)
      read(shard, 0);
  }

  void read(const shard_place& shard, std::uint64_t offset) {
    self_->request(shard.actor, patience, parameters_query{offset})
        .then(
            [this, &shard, offset](const parameters_piece& piece) {
              std::ranges::copy(piece.values, now_.begin() + static_cast<std::ptrdiff_t>(shard.begin + offset));
              if (!piece.last)
                return read(shard, offset + piece.values.size());
              versions_[shard.index] = piece.ver.value;
              if (--missing_ == 0)
                say();
            },
            [this](const caf::error& e) { // the job is over, or the shard is stuck
              fmt::print("no more parameters: {}\n", explain(e));
              self_->quit();
            });
  }

  void say() {
    for (const auto& [shard, version] : versions_)
      fmt::print("{}version {}", shard == 0 ? "" : ", ", version);
    for (const auto& parameter : job_.parameters) {
      double square = 0, moved = 0;
      std::uint64_t count = 1;
      for (const auto extent : parameter.dims)
        count *= static_cast<std::uint64_t>(extent);
      for (auto i = parameter.begin; i < parameter.begin + count; ++i) {
        square += now_[i] * now_[i];
        moved += before_.empty() ? 0 : (now_[i] - before_[i]) * (now_[i] - before_[i]);
      }
      fmt::print("; {} {:.4f} moved {:.4f}", parameter.name, std::sqrt(square), std::sqrt(moved));
    }
    fmt::print("\n");
    std::fflush(stdout);
    before_ = now_;
    if (--times_ == 0)
      self_->quit();
    else
      again();
  }

  void again() { self_->delayed_send(self_, between, caf::tick_atom_v); }

  watcher_actor::stateful_pointer<watcher_state> self_;
  cluster_actor cluster_;
  int times_; ///< remaining reads; below 0: no limit
  shards_view job_;
  std::vector<double> now_, before_;
  std::map<std::uint32_t, std::uint64_t> versions_; ///< of each shard
  std::size_t missing_ = 0;
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: ps_client CLUSTER.toml [TIMES]\n");
    return 2;
  }
  const auto file = troupe::config::load_cluster(argv[1]);
  if (!file) {
    fmt::print(stderr, "{}", file.error().text());
    return 2;
  }
  troupe::apps::cluster_connection cluster{*file}; // with the file's certificates
  if (!cluster) {
    fmt::print(stderr, "ps_client: {}\n", cluster.why_not());
    return 1;
  }
  caf::scoped_actor main_thread{cluster.system()};
  const auto watcher =
      cluster.system().spawn<watcher_actor::stateful_impl<watcher_state>>(cluster.cluster(), argc > 2 ? std::atoi(argv[2]) : -1);
  main_thread->wait_for(watcher);
  return 0;
}
