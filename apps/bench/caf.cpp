// SPDX-License-Identifier: BSD-3-Clause
// CAF's own remote messages between two processes on loopback, to stand beside the lanes.
#include "apps/bench/caf.hpp"
#include "apps/median.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::apps {

namespace {

using clock = std::chrono::steady_clock;

/// Discards a payload, returns it, or confirms that all earlier ones have arrived.
using peer_actor =
    caf::typed_actor<caf::result<void>(caf::put_atom, std::string), caf::result<std::string>(caf::get_atom, std::string),
                     caf::result<caf::ok_atom>(caf::ok_atom)>;

peer_actor::behavior_type peer_behavior() {
  return {
      [](caf::put_atom, const std::string&) {},
      [](caf::get_atom, std::string& payload) { return std::move(payload); },
      [](caf::ok_atom) { return caf::ok_atom_v; },
  };
}

class bench_config : public caf::actor_system_config {
public:
  bench_config() {
    load<caf::io::middleman>();
    set("caf.scheduler.policy", "sharing");
    set("caf.scheduler.max-threads", 2);
    set("caf.middleman.max-payload-size", std::size_t{256} << 20U); // our patch's bound is far below 64 MiB
    set("caf.logger.console.verbosity", "quiet");
  }
};

/// The forked peer: tells its port through `port_pipe` and serves until it is killed.
[[noreturn]] void echo_payloads(int port_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  bench_config config;
  caf::actor_system system(config);
  const auto peer = system.spawn(peer_behavior);
  const auto port = system.middleman().publish(peer, 0, "127.0.0.1");
  const std::uint16_t told = port ? *port : 0;
  if (::write(port_pipe, &told, sizeof told) != sizeof told)
    ::_exit(1);
  while (true)
    ::pause();
}

/// A child process that ends with this object.
class peer_process {
public:
  peer_process() {
    int ends[2];
    if (::pipe(ends) != 0 || (process_ = ::fork()) < 0)
      throw std::runtime_error("the benchmark's peer cannot be started");
    if (process_ == 0)
      echo_payloads(ends[1]);
    ::close(ends[1]);
    const bool told = ::read(ends[0], &port_, sizeof port_) == sizeof port_;
    ::close(ends[0]);
    if (!told || port_ == 0)
      throw std::runtime_error("the benchmark's peer has no port");
  }
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;
  ~peer_process() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  std::uint16_t port() const { return port_; }

private:
  pid_t process_ = -1;
  std::uint16_t port_ = 0;
};

double seconds_from(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

[[noreturn]] void fail(const caf::error& why) {
  throw std::runtime_error(fmt::format("the benchmark's peer does not answer: {}", to_string(why)));
}

/// Seconds for `messages` one way; BASP keeps the order of a connection, so the answer to the last means that all have arrived.
double one_way(caf::scoped_actor& self, const peer_actor& peer, const caf::message& payload, std::size_t messages) {
  const auto begin = clock::now();
  for (std::size_t i = 0; i < messages; ++i)
    self->send(caf::actor_cast<caf::actor>(peer), payload);
  self->request(peer, caf::infinite, caf::ok_atom_v).receive([](caf::ok_atom) {}, fail);
  return seconds_from(begin);
}

double there_and_back(caf::scoped_actor& self, const peer_actor& peer, const std::string& payload, std::size_t messages) {
  const auto begin = clock::now();
  for (std::size_t i = 0; i < messages; ++i)
    self->request(peer, caf::infinite, caf::get_atom_v, payload).receive([](const std::string&) {}, fail);
  return seconds_from(begin) / static_cast<double>(messages);
}

} // namespace

std::vector<caf_row> bench_caf(const std::vector<std::size_t>& sizes, int repeats) {
  caf::core::init_global_meta_objects();
  caf::io::middleman::init_global_meta_objects();
  const peer_process process;
  bench_config config;
  caf::actor_system system(config);
  const auto peer = system.middleman().remote_actor<peer_actor>("127.0.0.1", process.port());
  if (!peer)
    fail(peer.error());
  caf::scoped_actor self(system);
  constexpr std::size_t bytes_a_trial = 64U << 20U, most_messages = 5000, most_round_trips = 200;
  std::vector<caf_row> rows;
  for (const std::size_t bytes : sizes) {
    const std::string text(bytes, 'x');
    const auto payload = caf::make_message(caf::put_atom_v, text);
    const std::size_t messages = std::clamp<std::size_t>(bytes_a_trial / bytes, 2, most_messages);
    std::vector<double> gbps, rtt_us;
    one_way(self, *peer, payload, 2); // warms up
    for (int i = 0; i < repeats; ++i) {
      gbps.push_back(static_cast<double>(bytes * messages) / one_way(self, *peer, payload, messages) / 1e9);
      rtt_us.push_back(there_and_back(self, *peer, text, std::clamp<std::size_t>(messages / 8, 1, most_round_trips)) * 1e6);
    }
    rows.push_back({median(gbps), median(rtt_us)});
  }
  return rows;
}

} // namespace troupe::apps
