// SPDX-License-Identifier: BSD-3-Clause
// Starting children on loopback.
#include "apps/embedded_cluster.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/system.hpp"
#include "apps/cluster_check.hpp"
#include "apps/config/cluster_file.hpp"

namespace troupe::apps {

namespace {

constexpr std::string_view name_prefix = "node-";

std::string node_name(std::uint32_t number) {
  return fmt::format("{}{}", name_prefix, number);
}

/// What the file has; none: nothing.
std::string text_of(const std::string& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}

} // namespace

std::string last_words_file(const std::string& cluster_file, const std::string& node) {
  return fmt::format("{}.{}.last-words", cluster_file, node);
}

embedded_cluster::embedded_cluster(caf::actor_system& system, signal_waiter& signals, const embedded_options& options)
    : system_(system), signals_(signals), children_(options.children), scripts_(!options.children.variable.empty()),
      owns_nodes_(options.hosts == nullptr) {
  const auto* hosts = options.hosts;
  actors::cluster_setup setup{.name = options.name, .nodes = {}, .own = {.security = embedded_security, .added = options.added}};
  for (std::uint32_t i = 0; i < options.nodes && hosts == nullptr; ++i)
    setup.nodes.push_back({.name = node_name(i)});
  if (hosts != nullptr) {
    setup.nodes = node_descriptions(*hosts);
    setup.own = lanes_of(*hosts, hosts->coordinator());
    setup.own.added = options.added;
    setup.peers = options.peers;
  }
  cluster_ = system.spawn<actors::cluster_impl>(std::move(setup));
  try {
    if (hosts != nullptr)
      listen(hosts->coordinator().port, hosts->coordinator().host);
    else if (options.nodes > 1 || options.port)
      listen(options.port.value_or(0), "127.0.0.1");
    if (options.nodes > 1 && hosts == nullptr)
      start_children(options);
  } catch (...) {
    shut_down();
    throw;
  }
}

void embedded_cluster::listen(std::uint16_t port, const std::string& host) {
  const auto listening = actors::publish(system_, cluster_, port, host);
  if (!listening)
    throw std::runtime_error(fmt::format("cannot listen on {}{}: {}", host, port == 0 ? "" : fmt::format(":{}", port),
                                         actors::explain(listening.error())));
  port_ = *listening;
}

void embedded_cluster::start_children(const embedded_options& options) {
  std::error_code missing;
  auto folder = (std::filesystem::temp_directory_path(missing) / "troupe-XXXXXX").string();
  if (missing || !mkdtemp(folder.data()))
    throw std::runtime_error("cannot make a temporary folder; set TMPDIR to one that can be written");
  folder_ = folder;
  std::ofstream out{file()};
  config::cluster described{.name = options.name, .nodes = {}, .security = {}};
  for (std::uint32_t i = 0; i < options.nodes; ++i)
    described.nodes.push_back({.name = node_name(i),
                               .host = "127.0.0.1",
                               .port = i == 0 ? port_ : std::uint16_t{0},
                               .coordinator = i == 0,
                               .shard = true,
                               .worker = i != 0});
  out << config::to_toml(described);
  out.close();
  if (!out)
    throw std::runtime_error(fmt::format("cannot write {}; is the disk full?", file()));
  for (std::uint32_t i = 1; i < options.nodes; ++i)
    start_child(i);
}

void embedded_cluster::start_child(std::uint32_t node) {
  children_.start(node_name(node), {"node", file(), "--name", node_name(node), "--once"});
}

embedded_cluster::~embedded_cluster() {
  shut_down();
}

void embedded_cluster::reap() {
  while (auto end = children_.reap()) {
    const auto number = static_cast<std::uint32_t>(std::stoul(end->name.substr(name_prefix.size())));
    const auto words = last_words_file(file(), end->name);
    const auto why = text_of(words);
    if (!why.empty())
      end->how += ": " + why;
    std::filesystem::remove(words); // its successor has its own
    ended_.push_back({number, std::move(end->name), std::move(end->how), end->code > 128, !why.empty()});
  }
}

std::vector<ended_child> embedded_cluster::ended_children() {
  reap();
  return std::exchange(ended_, {});
}

/// Ends the cluster's actor, and waits until the processes that it does not own have heard of it: a connection that ends first
/// would be a crash to them.
void embedded_cluster::dismiss(const std::string& wrong) {
  constexpr std::chrono::seconds patience{5};
  caf::scoped_actor self{system_};
  std::size_t left = 0;
  if (!owns_nodes_)
    self->request(cluster_, patience, actors::cluster_query{})
        .receive(
            [&](const actors::cluster_view& seen) {
              for (const auto& member : seen.members)
                if (member.actor && member.actor.node() != system_.node()) {
                  self->monitor(member.actor);
                  ++left;
                }
            },
            [](const caf::error&) {});
  self->send_exit(cluster_, wrong.empty() ? caf::error{caf::exit_reason::user_shutdown} : actors::failure(wrong));
  bool in_time = true;
  const auto until = std::chrono::steady_clock::now() + patience;
  self->receive_while([&] { return left > 0 && in_time && !signals_.wait(0).interrupted; })(
      [&](const caf::down_msg&) { --left; },
      caf::after(std::chrono::milliseconds{100}) >> [&] { in_time = std::chrono::steady_clock::now() < until; });
}

void embedded_cluster::shut_down(const std::string& wrong) {
  if (cluster_)
    dismiss(wrong); // a published actor keeps the actor system alive
  cluster_ = nullptr;
  // Children that have joined would end without the coordinator, others would look for it. A second Ctrl-C or the end of patience
  // kills them.
  if (!scripts_)
    children_.interrupt_all();
  constexpr int patience_ms = 5000, tick_ms = 10;
  for (int waited = 0; !children_.empty() && waited < patience_ms; waited += tick_ms) {
    if (signals_.wait(tick_ms).interrupted)
      break;
    reap();
  }
  children_.kill_all();
  if (!folder_.empty())
    std::filesystem::remove_all(folder_);
  folder_.clear();
}

} // namespace troupe::apps
