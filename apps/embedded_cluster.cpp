// SPDX-License-Identifier: BSD-3-Clause
// Starting children on loopback and waiting for them.
#include "apps/embedded_cluster.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <caf/io/middleman.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/node_actor.hpp"
#include "actors/system.hpp"

namespace troupe::apps {

/// What the registry's thread stores and the main thread reads.
class embedded_cluster::joined_nodes final : public actors::registry_observer {
public:
  joined_nodes(std::size_t count, const signal_waiter& signals) : nodes_(count), signals_(signals) {}

  void on_joined(std::uint32_t number, const actors::node_hello&, const actors::node_actor& node) override {
    std::lock_guard guard{mutex_};
    nodes_[number] = node;
    signals_.announce();
  }
  void on_left(std::uint32_t, const std::string&) override {} // the coordinator monitors the nodes of its job itself

  std::vector<actors::node_actor> nodes() const {
    std::lock_guard guard{mutex_};
    return nodes_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<actors::node_actor> nodes_;
  const signal_waiter& signals_;
};

embedded_cluster::embedded_cluster(caf::actor_system& system, signal_waiter& signals, std::uint32_t nodes, const std::string& key)
    : system_(system), signals_(signals), own_(system.spawn<actors::node_impl>(actors::node_options{})) {
  names_.push_back("node-0");
  for (std::uint32_t i = 1; i < nodes; ++i)
    names_.push_back(fmt::format("node-{}", i));
  joined_ = std::make_shared<joined_nodes>(nodes, signals);
  if (nodes < 2)
    return;
  try {
    start_children(nodes, key);
  } catch (...) {
    shut_down(); // a registry that is published keeps the actor system alive
    throw;
  }
}

void embedded_cluster::start_children(std::uint32_t nodes, const std::string& key) {
  registry_ = system_.spawn<actors::registry_impl>(names_, joined_);
  auto port = actors::publish(system_, registry_, 0, "127.0.0.1");
  if (!port)
    throw std::runtime_error("cannot listen on loopback: " + actors::explain(port.error()));
  std::error_code missing;
  auto folder = (std::filesystem::temp_directory_path(missing) / "troupe-XXXXXX").string();
  if (missing || !mkdtemp(folder.data()))
    throw std::runtime_error("cannot make a temporary folder; set TMPDIR to one that can be written");
  folder_ = folder;
  auto file = folder_ + "/cluster.toml";
  std::ofstream out{file};
  out << fmt::format("name = \"{}\"\n", key);
  out << fmt::format("[[node]]\nname = \"node-0\"\nhost = \"127.0.0.1\"\nport = {}\nroles = [\"coordinator\", \"shard\"]\n", *port);
  for (std::uint32_t i = 1; i < nodes; ++i)
    out << fmt::format("[[node]]\nname = \"node-{}\"\nhost = \"127.0.0.1\"\nport = 0\nroles = [\"shard\", \"worker\"]\n", i);
  out.close();
  if (!out)
    throw std::runtime_error(fmt::format("cannot write {}; is the disk full?", file));
  for (std::uint32_t i = 1; i < nodes; ++i)
    children_.start(names_[i], {"node", file, "--name", names_[i], "--once"});
}

embedded_cluster::~embedded_cluster() { shut_down(); }

std::string embedded_cluster::wait_for_nodes(int timeout_ms) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{timeout_ms};
  for (;;) {
    auto here = joined_->nodes();
    std::string missing;
    for (std::size_t i = 1; i < here.size(); ++i)
      if (!here[i])
        missing += (missing.empty() ? "" : ", ") + names_[i];
    if (missing.empty())
      return {};
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0)
      return fmt::format("{} did not join within {} s", missing, timeout_ms / 1000);
    auto woken = signals_.wait(static_cast<int>(left));
    if (woken.interrupted)
      return "interrupted";
    if (woken.child_ended)
      if (auto ended = ended_children(); !ended.empty())
        return fmt::format("{} before it joined", fmt::join(ended, "; "));
  }
}

std::vector<actors::member_node> embedded_cluster::nodes() const {
  auto joined = joined_->nodes();
  std::vector<actors::member_node> members{{own_, names_[0], "127.0.0.1"}};
  for (std::size_t i = 1; i < joined.size(); ++i)
    members.push_back({joined[i], names_[i], "127.0.0.1"});
  return members;
}

std::vector<std::string> embedded_cluster::ended_children() {
  std::vector<std::string> ended;
  while (auto end = children_.reap())
    ended.push_back(fmt::format("{} {}", end->name, end->how));
  return ended;
}

void embedded_cluster::shut_down() {
  if (own_)
    caf::anon_send_exit(own_, caf::exit_reason::user_shutdown);
  if (registry_)
    caf::anon_send_exit(registry_, caf::exit_reason::user_shutdown); // the children end when it is gone
  own_ = nullptr;
  registry_ = nullptr;
  joined_ = nullptr;
  // They end by themselves when the registry is gone; a second Ctrl-C, or patience that runs out, kills them.
  constexpr int patience_ms = 5000, tick_ms = 10;
  for (int waited = 0; !children_.empty() && waited < patience_ms; waited += tick_ms) {
    if (signals_.wait(tick_ms).interrupted)
      break;
    while (children_.reap()) {
    }
  }
  children_.kill_all();
  if (!folder_.empty())
    std::filesystem::remove_all(folder_);
  folder_.clear();
}

} // namespace troupe::apps
