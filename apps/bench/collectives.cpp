// SPDX-License-Identifier: BSD-3-Clause
// The processes, each a rank, and who waits for them.
#include "apps/bench/collectives.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/net/lane.hpp"
#include "actors/roles/lane_router.hpp"
#include "actors/roles/worker/common_replica.hpp"
#include "apps/bench/bare_socket.hpp"
#include "apps/median.hpp"
#include "kernels/backend.hpp"
#include "protocols/collective/reduction.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors::net {
namespace {

namespace collective = protocols::collective;

constexpr std::uint32_t most_ranks = 16;

/// One call by every rank: an algorithm's, or the bare sockets'.
struct call {
  std::size_t bytes = 0;
  std::optional<collective::algorithm> which;
  bool counts = true; ///< false: it warms up
};

/// The calls of all sizes in turns; the same list in every process.
std::vector<call> calls_of(const collective_bench_options& options) {
  constexpr std::size_t fewest = 5, most = 200, warm_ups = 2;
  std::vector<call> out;
  for (const std::size_t bytes : options.sizes)
    for (std::size_t i = 0; i < warm_ups + std::clamp(options.bytes_per_trial / bytes, fewest, most); ++i) {
      out.push_back({bytes, {}, i >= warm_ups});
      for (const auto which : options.algorithms)
        out.push_back({bytes, which, i >= warm_ups});
    }
  return out;
}

// -- what the processes share

class shared_memory {
public:
  shared_memory(std::uint32_t ranks, std::size_t calls) : ranks_(ranks), bytes_(sizeof(head) + calls * ranks * sizeof(double)) {
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "shared memory for the benchmark");
    head_ = new (at) head;
    pthread_barrierattr_t shared;
    ::pthread_barrierattr_init(&shared);
    ::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    ::pthread_barrier_init(&head_->barrier, &shared, ranks);
    ::pthread_barrierattr_destroy(&shared);
  }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;
  ~shared_memory() { ::munmap(head_, bytes_); }

  /// Returns once every rank has called it.
  void meet() { ::pthread_barrier_wait(&head_->barrier); }
  std::uint16_t& port(std::uint32_t rank) { return head_->ports[rank]; }
  double& seconds(std::size_t call, std::uint32_t rank) {
    return reinterpret_cast<double*>(head_ + 1)[call * ranks_ + rank]; // NOLINT: behind the head
  }
  double slowest(std::size_t call) {
    const double* const first = &seconds(call, 0);
    return *std::max_element(first, first + ranks_);
  }
  void fail(std::uint32_t rank, std::string_view why) {
    auto& text = head_->failures[rank];
    std::ranges::copy(why.substr(0, text.size() - 1), text.begin());
  }
  std::string failures() const {
    std::string out;
    for (const auto& text : head_->failures)
      if (text[0] != 0)
        out += fmt::format("{}{}", out.empty() ? "" : "; ", text.data());
    return out;
  }

private:
  struct alignas(double) head {
    pthread_barrier_t barrier;
    std::array<std::uint16_t, most_ranks> ports{};
    std::array<std::array<char, 200>, most_ranks> failures{};
  };
  std::uint32_t ranks_;
  std::size_t bytes_;
  head* head_;
};

// -- bare sockets

/// One process's end of a connection to each other rank.
class bare_mesh {
public:
  bare_mesh(std::uint32_t rank, std::vector<std::unique_ptr<bare_socket>> to) : rank_(rank), to_(std::move(to)) {}

  /// Each rank sends `each` bytes to every other, and gets as many.
  void exchange(const std::byte* from, std::byte* into, std::size_t each) const {
    struct progress {
      std::size_t sent = 0, come = 0;
    };
    std::vector<progress> all(to_.size());
    all[rank_] = {each, each};
    const auto is_over = [each](const progress& one) { return one.sent == each && one.come == each; };
    while (!std::ranges::all_of(all, is_over)) {
      bool moved = false;
      for (std::size_t peer = 0; peer < all.size(); ++peer) {
        progress& one = all[peer];
        if (one.sent < each)
          moved |= advance(one.sent,
                           ::send(to_[peer]->get(), from + peer * each + one.sent, each - one.sent, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (one.come < each)
          moved |= advance(one.come, ::recv(to_[peer]->get(), into + peer * each + one.come, each - one.come, MSG_DONTWAIT));
      }
      if (moved)
        continue;
      std::vector<pollfd> waits;
      for (std::size_t peer = 0; peer < all.size(); ++peer)
        if (!is_over(all[peer]))
          waits.push_back({to_[peer]->get(),
                           static_cast<short>((all[peer].sent < each ? POLLOUT : 0) | (all[peer].come < each ? POLLIN : 0)), 0});
      ::poll(waits.data(), waits.size(), -1);
    }
  }

private:
  /// Whether something was moved.
  static bool advance(std::size_t& so_far, ssize_t count) {
    if (count == 0 || (count < 0 && errno != EAGAIN))
      throw std::runtime_error("a bare socket's peer is gone");
    so_far += count > 0 ? static_cast<std::size_t>(count) : 0;
    return count > 0;
  }

  std::uint32_t rank_;
  std::vector<std::unique_ptr<bare_socket>> to_; ///< by rank; none to itself
};

// -- lanes

/// Hands what comes over the lanes to the thread that sums.
class rank_inbox final : public lane_handler {
public:
  struct part {
    wire::peer_part head;
    kernels::buffer payload;
  };

  void on_up(node_id, std::uint32_t) override {
    const std::lock_guard lock(mutex_);
    ++lanes_;
    changed_.notify_all();
  }
  void on_down(node_id peer, std::uint32_t, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    broken_ = fmt::format("the lane to rank {} is over: {}", peer.value, reason);
    changed_.notify_all();
  }
  kernels::buffer place(node_id, const wire::message&, std::size_t) override { return {}; }
  void on_message(node_id, wire::message msg, kernels::buffer payload) override {
    const std::lock_guard lock(mutex_);
    come_.push_back({std::get<wire::peer_part>(std::move(msg)), std::move(payload)});
    changed_.notify_all();
  }

  void wait_for_lanes(std::uint32_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lanes_ == count || !broken_.empty(); });
    stop_if_broken();
  }
  part next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !come_.empty() || !broken_.empty(); });
    if (come_.empty())
      stop_if_broken();
    part out = std::move(come_.front());
    come_.pop_front();
    return out;
  }

private:
  void stop_if_broken() const {
    if (!broken_.empty())
      throw std::runtime_error(broken_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t lanes_ = 0;
  std::deque<part> come_;
  std::string broken_;
};

/// One rank: performs reductions with the others over lanes.
class rank_driver {
public:
  rank_driver(std::uint32_t rank, const collective_bench_options& how, shared_memory& shared)
      : rank_(rank), ranks_(how.procs), queue_(kernels::open_backend({.device = "cpu", .threads = 1})),
        inbox_(std::make_shared<rank_inbox>()) {
    plan_.epoch = {1};
    for (std::uint32_t each = 0; each < ranks_; ++each)
      plan_.workers.push_back({{each}, {}});
    lane_options options;
    options.self = node_id{rank};
    options.congestion = how.congestion;
    options.shared_memory = how.shared_memory;
    options.allocate = [queue = queue_](std::size_t bytes) { return queue->allocate_host(bytes); };
    hub_ = lane_hub::open(options, inbox_);
    shared.port(rank) = hub_->port();
    shared.meet();
    for (std::uint32_t peer = rank + 1; peer < ranks_; ++peer)
      hub_->connect(node_id{peer}, "127.0.0.1", shared.port(peer), std::chrono::seconds(10));
    inbox_->wait_for_lanes(ranks_ - 1);
  }

  /// From now on sums are of so many floats.
  void resize(std::int64_t floats) {
    replica_.emplace(queue_, optimizer_spec{}, floats, 1, std::vector<update_range>{});
    chunks_.emplace([queue = queue_](std::size_t bytes) { return queue->allocate_host(bytes); });
  }

  /// In place. Returns what is known of the sum, of gradients of a sample each.
  collective::facts sum(collective::algorithm which, std::uint64_t round, const kernels::buffer& flat) {
    collective::reduction machine(which);
    auto effects = machine.on(collective::begin{rank_, ranks_, {.samples = 1}});
    while (true) {
      if (const auto done = perform(machine, effects, {which, round, flat}))
        return *done;
      const auto [head, payload] = inbox_->next();
      const protocols::peer_message& msg = head.message;
      if (msg.round != round)
        throw std::runtime_error(fmt::format("it has a chunk of call {} in call {}", msg.round, round));
      auto whole = chunks_->join(&*replica_, &plan_, head, payload);
      if (!whole)
        throw std::runtime_error(whole.error().message);
      effects.clear();
      if (*whole)
        effects = machine.on(collective::chunk{
            {msg.from.worker.value, msg.stage, msg.part.first}, msg.part.last, keep(std::move(**whole)), msg.facts});
    }
  }

  void close() { hub_->leave(); }

private:
  protocols::ticket keep(kernels::buffer data) {
    tensors_.emplace(++tickets_, std::move(data));
    return protocols::ticket{tickets_};
  }

  struct open_sum {
    collective::algorithm which;
    std::uint64_t round;
    const kernels::buffer& flat;
  };

  /// In their order, for what is sent is what is in place then. What is known of the sum, if it is done.
  std::optional<collective::facts> perform(collective::reduction& machine, const collective::reduction_effects& effects,
                                           const open_sum& of) {
    std::optional<collective::facts> done;
    std::deque<collective::reduction_effect> todo(effects.begin(), effects.end());
    for (; !todo.empty(); todo.pop_front())
      std::visit(overloaded{
                     [&](const collective::merge& effect) {
                       merge(effect, of);
                       const auto more = machine.on(collective::merged{effect.stage, effect.first});
                       todo.insert(todo.end(), more.begin(), more.end());
                     },
                     [&](const collective::send_chunk& effect) { send(effect, of); },
                     [&](const collective::drop_chunk& effect) { tensors_.erase(effect.data.value); },
                     [](const collective::refuse_chunk& effect) { throw std::runtime_error(effect.why); },
                     [&](const collective::reduced& effect) { done = effect.of; },
                 },
                 todo.front());
    return done;
  }
  void merge(const collective::merge& effect, const open_sum& of) {
    using term = protocols::operand<kernels::buffer>;
    protocols::operands<kernels::buffer> terms;
    for (const auto name : effect.terms)
      terms.push_back(name == protocols::ticket{} ? term{.from = term::source::own}
                                                  : term{.tensor = tensors_.extract(name.value).mapped()});
    replica_->add_up(of.flat, {effect.first, effect.last, collective::segments(of.which, ranks_)}, terms);
  }
  void send(const collective::send_chunk& effect, const open_sum& of) {
    const protocols::send_peer chunk{{effect.to},
                                     {.from = plan_.workers[rank_],
                                      .round = of.round,
                                      .is = protocols::peer_message::kind::chunk,
                                      .epoch = plan_.epoch,
                                      .stage = effect.stage,
                                      .part = {effect.first, effect.last, collective::segments(of.which, ranks_)},
                                      .facts = effect.of},
                                     collective::cargo_of(of.which, ranks_, effect.stage)};
    replica_->each_part(chunk, of.flat, {}, [&](const protocols::wire::peer_part& head, const kernels::buffer& data) {
      send_in_partitions({hub_, node_id{effect.to}}, head, data);
    });
  }

  std::uint32_t rank_, ranks_;
  protocols::plan plan_;
  std::shared_ptr<kernels::backend> queue_;
  std::shared_ptr<rank_inbox> inbox_;
  std::shared_ptr<lane_hub> hub_;
  std::optional<common_replica> replica_;
  std::optional<chunk_inbox> chunks_;
  std::unordered_map<std::uint64_t, kernels::buffer> tensors_;
  std::uint64_t tickets_ = 0;
};

// -- the processes

/// Element i of a rank's term; sums of them are exact in any order.
float element(std::uint32_t rank, std::size_t call, std::size_t i) {
  return static_cast<float>((rank + 1) * (1 + (i + call) % 7));
}

/// What rank `rank` does, from beginning to end.
void perform_calls(std::uint32_t rank, const collective_bench_options& options, const bare_mesh& bare, shared_memory& shared) {
  rank_driver driver(rank, options, shared);
  const std::vector<call> calls = calls_of(options);
  const std::size_t most = std::ranges::max(options.sizes);
  const auto each_of = [&](std::size_t bytes) { return (bytes + options.procs - 1) / options.procs; };
  const std::size_t room = (most + options.procs + kernels::alignment) / kernels::alignment * kernels::alignment;
  const kernels::buffer memory = touched(room), scratch = touched(room);
  const std::uint32_t all = options.procs * (options.procs + 1) / 2 - 1; // one less, as ranks are
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& [bytes, which, counts] = calls[i];
    const kernels::buffer flat = memory.slice(0, bytes);
    const auto numbers = flat.span<float>();
    if (i == 0 || bytes != calls[i - 1].bytes)
      driver.resize(static_cast<std::int64_t>(numbers.size()));
    for (std::size_t at = 0; which && at < numbers.size(); ++at)
      numbers[at] = element(rank, i, at);
    collective::facts known{.samples = options.procs};
    shared.meet();
    const auto start = std::chrono::steady_clock::now();
    if (which)
      known = driver.sum(*which, i, flat);
    else
      for (int stage = 0; stage < 2; ++stage)
        bare.exchange(memory.data(), scratch.data(), each_of(bytes));
    shared.seconds(i, rank) = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    shared.meet(); // what is sent is sent from where it lies: nobody writes there before everybody has it
    for (std::size_t at = 0; which && at < numbers.size(); ++at)
      if (numbers[at] != element(all, i, at))
        throw std::runtime_error(fmt::format("{} of {} bytes: element {} is {}, and the sum is {}", collective::name_of(*which),
                                             bytes, at, numbers[at], element(all, i, at)));
    if (known.samples != options.procs)
      throw std::runtime_error(fmt::format("{} counts {} samples", collective::name_of(*which), known.samples));
  }
  driver.close();
}

using rank_sockets = std::vector<std::unique_ptr<bare_socket>>;

/// The forked process.
[[noreturn]] void be_rank(std::uint32_t rank, const collective_bench_options& options, std::vector<rank_sockets>& sockets,
                          shared_memory& shared) try {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  rank_sockets own = std::move(sockets[rank]);
  sockets.clear();
  perform_calls(rank, options, {rank, std::move(own)}, shared);
  ::_exit(0);
} catch (const std::exception& e) {
  shared.fail(rank, fmt::format("rank {}: {}", rank, e.what()));
  ::_exit(1);
}

/// Waits for the processes of a group; ends the others once one fails.
void wait_for_ranks(pid_t group, std::uint32_t ranks, const shared_memory& shared) {
  bool failed = false;
  for (std::uint32_t gone = 0; gone < ranks; ++gone) {
    int status = 0;
    while (::waitpid(-group, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0 && !std::exchange(failed, true))
      ::kill(-group, SIGKILL);
  }
  if (failed)
    throw std::runtime_error("a process of the benchmark failed: " + shared.failures());
}

} // namespace

std::vector<collective_row> bench_collectives(const collective_bench_options& options) {
  const std::uint32_t ranks = options.procs;
  if (ranks < 2 || ranks > most_ranks)
    throw std::runtime_error(fmt::format("a sum is among 2 to {} processes", most_ranks));
  const std::vector<call> calls = calls_of(options);
  shared_memory shared(ranks, calls.size());
  std::vector<rank_sockets> sockets(ranks);
  for (auto& row : sockets)
    row.resize(ranks);
  for (std::uint32_t low = 0; low < ranks; ++low)
    for (std::uint32_t high = low + 1; high < ranks; ++high) {
      const auto ends = tcp_pair(options.congestion);
      sockets[low][high] = std::make_unique<bare_socket>(ends[0]);
      sockets[high][low] = std::make_unique<bare_socket>(ends[1]);
    }
  pid_t group = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      ::setpgid(0, group); // here and below: whoever comes first
      be_rank(rank, options, sockets, shared);
    }
    if (process < 0) {
      const int why = errno;
      if (group != 0)
        ::kill(-group, SIGKILL);
      throw std::system_error(why, std::generic_category(), "a process of the benchmark");
    }
    group = group == 0 ? process : group;
    ::setpgid(process, group);
  }
  sockets.clear();
  wait_for_ranks(group, ranks, shared);

  std::vector<collective_row> rows;
  for (const std::size_t bytes : options.sizes) {
    const auto median_us = [&](std::optional<collective::algorithm> which) {
      std::vector<double> took;
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (calls[i].bytes == bytes && calls[i].which == which && calls[i].counts)
          took.push_back(shared.slowest(i) * 1e6);
      return median(took);
    };
    for (const auto which : options.algorithms)
      rows.push_back({.which = which, .bytes = bytes, .us = median_us(which), .bare_us = median_us({}), .procs = ranks});
  }
  return rows;
}

} // namespace troupe::actors::net
