// SPDX-License-Identifier: BSD-3-Clause
// The measuring process (node 0) and its forked peer (node 1), which answers.
#include "apps/bench/lanes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/net/lane.hpp"
#include "apps/bench/bare_socket.hpp"
#include "apps/median.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

constexpr std::size_t partition_bytes = 4U << 20U;

/// The transport of a trial.
enum class way : std::uint8_t { bare, lane, tls, open, shared };
constexpr std::array ways{way::bare, way::lane, way::tls, way::open, way::shared};

/// What both processes do next: `messages` of `bytes` bytes each, one way or there and back.
struct trial {
  std::size_t bytes = 0, messages = 0;
  bool echo = false, urgent = false; ///< `urgent`: one that is asked for once the first part has come
  way over = way::bare;
  std::size_t parts() const { return std::max<std::size_t>(1, bytes / partition_bytes); }
};

/// What a receiver does with what comes: adds it to a sum.
class adder {
public:
  void add(std::span<const float> values) {
    float* const sum = sum_.as<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      sum[i] += values[i];
  }

private:
  const kernels::buffer sum_ = touched(partition_bytes);
};

// -- lanes

/// Small messages: all has come; ask for an urgent one; that one; its answer.
enum class word : std::uint64_t { done, go, urgent, answer };

/// Either end of the lane. What comes is placed at its range in one buffer; answers are sent from the hub's thread, as the
/// bare peer answers from the thread that read.
class lane_end final : public lane_handler {
public:
  explicit lane_end(kernels::buffer memory) : memory_(std::move(memory)) {}

  void begin(const trial& next) {
    const std::lock_guard lock(mutex_);
    trial_ = next;
    bytes_come_ = 0;
    answered_ = !next.urgent;
    done_ = all_has_come_ = false;
  }
  void send_message() {
    for (std::size_t i = 0; i < trial_.parts(); ++i) {
      const std::size_t bytes = trial_.bytes / trial_.parts();
      const auto begin = static_cast<std::int64_t>(i * bytes / sizeof(float));
      const wire::range where{begin, begin + static_cast<std::int64_t>(bytes / sizeof(float))};
      hub->send(other, wire::push_part{{}, {}, {}, where}, memory_.slice(i * bytes, bytes), 1);
    }
  }
  void wait_up() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return up_; });
  }
  void wait_done() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }

  void on_up(node_id, std::uint32_t) override { set(up_); }
  void on_down(node_id, std::uint32_t, const std::string&) override {
    if (!is_peer)
      set(done_);
  }
  kernels::buffer place(node_id, const wire::message& head, std::size_t bytes) override {
    return memory_.slice(static_cast<std::size_t>(std::get<wire::push_part>(head).where.begin) * sizeof(float), bytes);
  }
  void on_message(node_id, wire::message msg, kernels::buffer payload) override {
    if (const auto* small = std::get_if<wire::addressed<protocols::drop_order>>(&msg))
      return hear(static_cast<word>(small->message.id.clock.value));
    if (trial_.urgent && bytes_come_ == 0)
      say(word::go);
    if (!trial_.echo && !trial_.urgent)
      sum_.add(payload.span<const float>());
    bytes_come_ += payload.bytes(); // a lane may cut a part
    const bool message_complete = bytes_come_ % trial_.bytes == 0;
    const bool all = bytes_come_ == trial_.bytes * trial_.messages;
    if (trial_.echo && message_complete && (is_peer || !all))
      send_message();
    else if (trial_.echo && all)
      set(done_);
    else if (all)
      say(word::done);
  }
  /// From the request to the answer, of the last trial with an urgent message.
  double urgent_s() const { return std::chrono::duration<double>(urgent_took_).count(); }

  std::unique_ptr<lane_hub> hub;
  node_id other;
  bool is_peer = false; ///< the forked peer

private:
  void say(word said) {
    hub->send(other, wire::addressed<protocols::drop_order>{{}, {{{}, {}, {static_cast<std::uint64_t>(said)}}}}, {}, 0);
  }
  void hear(word said) {
    const auto now = std::chrono::steady_clock::now();
    switch (said) {
    case word::done:
      all_has_come_ = true;
      break;
    case word::go:
      asked_at_ = now;
      return say(word::urgent);
    case word::urgent:
      return say(word::answer);
    case word::answer:
      urgent_took_ = now - asked_at_;
      answered_ = true;
      break;
    }
    if (answered_ && all_has_come_)
      set(done_);
  }
  void set(bool& flag) {
    const std::lock_guard lock(mutex_);
    flag = true;
    changed_.notify_all();
  }

  const kernels::buffer memory_;
  adder sum_;
  trial trial_;
  // Used on the hub's thread, except by `begin`, when nothing is under way.
  std::size_t bytes_come_ = 0;
  bool answered_ = true, all_has_come_ = false;
  std::chrono::steady_clock::time_point asked_at_{};
  std::chrono::steady_clock::duration urgent_took_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool up_ = false, done_ = false;
};

std::shared_ptr<lane_end> open_end(std::uint32_t id, const kernels::buffer& memory, const lane_bench_options& of, way over) {
  auto end = std::make_shared<lane_end>(memory);
  end->other = node_id{1 - id};
  end->is_peer = id == 1;
  lane_options options;
  options.self = node_id{id};
  options.congestion = of.congestion;
  if (over == way::tls)
    options.security = of.files;
  options.narrows_loopback = over == way::lane || over == way::tls;
  options.shared_memory = over == way::shared;
  end->hub = lane_hub::open(options, end);
  return end;
}

/// One process's ends of the plain lane, of those without a window and, with certificates, of one that speaks TLS.
class lane_ends {
public:
  lane_ends(std::uint32_t id, const kernels::buffer& memory, const lane_bench_options& of)
      : ends_{{open_end(id, memory, of, way::lane), of.files.enabled() ? open_end(id, memory, of, way::tls) : nullptr,
               open_end(id, memory, of, way::open), open_end(id, memory, of, way::shared)}} {}

  lane_end& end_for(const trial& next) const {
    return *ends_[next.over == way::bare ? 0 : static_cast<std::size_t>(next.over) - 1];
  }
  /// 0 for a missing lane.
  using port_list = std::array<std::uint16_t, ways.size() - 1>;
  port_list ports() const {
    port_list out{};
    std::ranges::transform(ends_, out.begin(), [](const auto& end) { return end ? end->hub->port() : std::uint16_t{0}; });
    return out;
  }
  void connect(const port_list& ports) const {
    for (std::size_t i = 0; i < ports.size(); ++i)
      if (const auto& end = ends_[i]) {
        end->hub->connect(node_id{1}, "127.0.0.1", ports[i], std::chrono::seconds(10));
        end->wait_up();
      }
  }
  void close() const {
    for (const auto& end : ends_)
      if (end)
        end->hub.reset();
  }

private:
  const std::array<std::shared_ptr<lane_end>, ways.size() - 1> ends_; ///< by way, but for the bare socket
};

// -- the two processes

/// The forked process: answers until the other end of `control` closes.
[[noreturn]] void answer(const bare_socket& control, const bare_socket& bare, std::size_t most,
                         const lane_bench_options& options) try {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto memory = touched(most);
  adder sum;
  const lane_ends lanes(1, memory, options);
  const auto ports = lanes.ports();
  control.write(ports.data(), sizeof ports);
  for (trial next; control.read(&next, sizeof next);) {
    lanes.end_for(next).begin(next);
    control.write("r", 1);
    for (std::size_t i = 0; next.over == way::bare && i < next.messages; ++i) {
      const std::size_t bytes = next.bytes / next.parts();
      for (std::size_t p = 0; p < next.parts(); ++p) {
        const auto part = memory.slice(p * bytes, bytes);
        bare.read(part.data(), bytes);
        if (!next.echo)
          sum.add(part.span<const float>());
      }
      if (next.echo)
        bare.write(memory.data(), next.bytes);
    }
    if (next.over == way::bare && !next.echo)
      bare.write("d", 1);
  }
  ::_exit(0);
} catch (const std::exception&) {
  ::_exit(1);
}

/// Seconds.
double measure(const trial& next, const bare_socket& control, const bare_socket& bare, lane_end& lane,
               const kernels::buffer& memory) {
  char byte = 0;
  lane.begin(next);
  control.write(&next, sizeof next);
  control.read(&byte, 1);
  const auto start = std::chrono::steady_clock::now();
  if (next.over != way::bare) {
    for (std::size_t i = 0; i < (next.echo ? 1 : next.messages); ++i)
      lane.send_message();
    lane.wait_done();
  } else {
    for (std::size_t i = 0; i < next.messages; ++i) {
      bare.write(memory.data(), next.bytes);
      if (next.echo)
        bare.read(memory.data(), next.bytes);
    }
    if (!next.echo)
      bare.read(&byte, 1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

std::vector<lane_row> bench_lanes(const lane_bench_options& options) {
  const std::size_t most = std::ranges::max(options.sizes);
  const std::array<int, 2> bare_ends = tcp_pair(options.congestion);
  std::array<int, 2> control_ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, control_ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "a socket pair for the benchmark");
  const pid_t peer = ::fork();
  if (peer == 0) {
    ::close(bare_ends[0]);
    ::close(control_ends[0]);
    answer(bare_socket(control_ends[1]), bare_socket(bare_ends[1]), most, options);
  }
  ::close(bare_ends[1]);
  ::close(control_ends[1]);

  std::vector<lane_row> rows;
  {
    const bare_socket control(control_ends[0]), bare(bare_ends[0]);
    const auto memory = touched(most);
    const lane_ends lanes(0, memory, options);
    lane_ends::port_list ports{};
    control.read(ports.data(), sizeof ports);
    lanes.connect(ports);
    for (const std::size_t bytes : options.sizes) {
      // A small message costs microseconds whatever its size.
      const std::size_t messages = std::clamp<std::size_t>(options.bytes_per_trial / bytes, 3, 20'000);
      std::array<std::vector<double>, ways.size()> gbps, rtt_us, urgent_ms; // by way
      for (int i = 0; i <= options.repeats; ++i)
        for (const way over : ways) {
          if (over == way::tls && !options.files.enabled())
            continue;
          const auto at = static_cast<std::size_t>(over);
          for (const bool echo : {false, true}) {
            const trial next{bytes, echo ? std::min<std::size_t>(messages / 2 + 1, 2'000) : messages, echo, false, over};
            const double took = measure(next, control, bare, lanes.end_for(next), memory);
            const auto count = static_cast<double>(next.messages);
            if (i > 0) // the first warms up
              (echo ? rtt_us : gbps)[at].push_back(echo ? took / count * 1e6 : static_cast<double>(bytes) * count / took / 1e9);
          }
          if (over == way::bare)
            continue;
          const trial next{bytes, 1, false, true, over};
          measure(next, control, bare, lanes.end_for(next), memory);
          if (i > 0)
            urgent_ms[at].push_back(lanes.end_for(next).urgent_s() * 1e3);
        }
      const auto of = [](const auto& figures, way over) { return median(figures[static_cast<std::size_t>(over)]); };
      rows.push_back({.bytes = bytes,
                      .lane_gbps = of(gbps, way::lane),
                      .bare_gbps = of(gbps, way::bare),
                      .lane_rtt_us = of(rtt_us, way::lane),
                      .bare_rtt_us = of(rtt_us, way::bare),
                      .tls_gbps = of(gbps, way::tls),
                      .tls_rtt_us = of(rtt_us, way::tls),
                      .open_gbps = of(gbps, way::open),
                      .shm_gbps = of(gbps, way::shared),
                      .shm_rtt_us = of(rtt_us, way::shared),
                      .urgent_ms = of(urgent_ms, way::lane),
                      .open_urgent_ms = of(urgent_ms, way::open)});
    }
    lanes.close();
  }
  ::waitpid(peer, nullptr, 0);
  return rows;
}

} // namespace troupe::actors::net
