// SPDX-License-Identifier: BSD-3-Clause
// Frames of lanes, and states of machines.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "actors/net/frame_reader.hpp"
#include "kernels/backend.hpp"
#include "protocols/wire/ledger.hpp"
#include "protocols/wire/state.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/protocols/wire_samples.hpp"

namespace troupe::fuzz {

namespace {

namespace wire = protocols::wire;

/// What came of a stream.
class heard final : public actors::net::frame_reader::sink {
public:
  bool begins(const wire::decoded&) override { return true; }
  kernels::buffer place(const wire::message&, std::size_t bytes) override {
    static const auto host = kernels::open_backend({});
    must(bytes <= most, "no payload is larger than the limit");
    auto out = host->allocate_host(bytes);
    std::memset(out.data(), 0, bytes);
    return out;
  }
  bool borrow(std::uint64_t, const kernels::buffer&) override { return true; }
  bool accept(wire::content body, kernels::buffer payload) override {
    frames.push_back(std::move(body));
    bytes += payload.bytes();
    return true;
  }

  static constexpr std::size_t most = 1U << 16U;
  std::vector<wire::content> frames;
  std::size_t bytes = 0;
  std::optional<std::string> fault;
};

/// Read in pieces of at most `piece` bytes.
heard read(std::span<const std::byte> stream, std::size_t piece) {
  heard out;
  actors::net::frame_reader reader({.payload_bytes = heard::most});
  while (!stream.empty() && !out.fault) {
    std::size_t got = 0;
    for (const auto place : reader.room()) {
      const auto here = stream.subspan(got, std::min({piece - got, stream.size() - got, place.size()}));
      std::ranges::copy(here, place.begin());
      got += here.size();
    }
    must(got > 0, "a reader of frames has room for a byte");
    stream = stream.subspan(got);
    out.fault = reader.advance(got, out);
  }
  return out;
}

/// Bytes as they were encoded are what another encoding of the same makes.
template <class State>
void try_state(std::span<const std::uint64_t> words) {
  const auto first = wire::decode_state<State>(words);
  if (!first)
    return;
  const auto again = wire::encode_state(*first);
  const auto second = wire::decode_state<State>(again);
  must(second.has_value(), "what encode_state makes can be decoded");
  must(wire::encode_state(*second) == again, "a state that is encoded twice gives the same bytes");
}

std::vector<std::uint64_t> words_in(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint64_t> out(bytes.size() / sizeof(std::uint64_t));
  if (!out.empty())
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(std::uint64_t));
  return out;
}

protocols::plan some_plan() {
  return {.epoch = {7},
          .workers = {{{0}, {2}}, {{3}, {}}},
          .protocol = {.name = "easgd", .fan_in = 2, .parameters = {{"a", true}, {"d", std::string{"nesterov"}}}},
          .period = 4,
          .batch = 64,
          .data_size = 60'000,
          .lr_scale = 0.5};
}

input bytes_of_words(const std::vector<std::uint64_t>& words, std::uint8_t kind) {
  input out(1 + words.size() * sizeof(std::uint64_t));
  out[0] = kind;
  std::memcpy(out.data() + 1, words.data(), out.size() - 1);
  return out;
}

/// A job in the middle of its first life.
protocols::ledger::state running() {
  namespace ledger = protocols::ledger;
  ledger::state out;
  for (const ledger::entry& each : std::vector<ledger::entry>{
           ledger::submitted{1, true, {}, 8}, ledger::started{1, 1, {"a", "b"}, 77}, ledger::planned{1, 1, some_plan()},
           ledger::incarnated{1, 1, false, 1, 2}, ledger::promoted{1, 1, {0}, {2}, 1}, ledger::checkpointed{1, 1, {40}}})
    ledger::apply(out, each);
  return out;
}

} // namespace

/// However the stream is cut into reads, the same frames and the same fault come of it.
int fuzz_lane(const std::uint8_t* data, std::size_t size) {
  const auto stream = std::as_bytes(std::span(data, size));
  const heard whole = read(stream, size + 1), cut = read(stream, 1 + size % 23);
  must(whole.frames.size() == cut.frames.size() && whole.bytes == cut.bytes, "frames do not depend on how they are read");
  must(whole.fault == cut.fault, "a fault does not depend on how the bytes before it are read");
  return 0;
}

std::vector<input> lane_corpus() {
  std::vector<input> out;
  input all;
  for (const auto& samples : {wire::test::ordinary(), wire::test::extreme()})
    for (const wire::test::sample& each : samples) {
      const auto payload = wire::test::payload_for(each.body);
      const auto frame = wire::encode(each.body, std::as_bytes(std::span(payload)), out.size());
      if (!frame || frame->payload.size() > heard::most)
        continue;
      input one;
      for (const auto part : {frame->head_bytes(), frame->payload})
        for (const std::byte byte : part)
          one.push_back(static_cast<std::uint8_t>(byte));
      all.insert(all.end(), one.begin(), one.end());
      out.push_back(std::move(one));
      if (const auto lent = wire::encode_lent(each.body, std::as_bytes(std::span(payload)))) {
        const auto head = lent->head_bytes();
        input alone(head.size());
        std::memcpy(alone.data(), head.data(), head.size());
        out.push_back(std::move(alone));
      }
    }
  out.push_back(std::move(all));
  return out;
}

/// The first byte says which machine's.
int fuzz_state(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto words = words_in({data + 1, size - 1});
  switch (data[0] % 3) {
  case 0:
    try_state<protocols::lead_state>(words);
    break;
  case 1:
    try_state<protocols::holder_state>(words);
    break;
  default:
    try_state<protocols::coordinator_state>(words);
  }
  return 0;
}

std::vector<input> state_corpus() {
  const protocols::plan plan = some_plan();
  const protocols::push push{.epoch = {7}, .id = {{3}, {}, {9}}, .base = {40}, .gradient = {5}, .samples = 16};
  protocols::lead_state lead{.plan = plan, .last_ticket = {5}, .samples_applied = 99, .sends = 4, .made = {40}};
  lead.open[push.id] = {.reported = {{0}, {1}}, .known_as = {5}};
  lead.newest[{3}] = push.id;
  lead.parked.push_back({.holder = {1}, .push = push});
  lead.rule = protocols::round_rule_state{
      .newest = plan, .round = {.plan = plan, .base = {40}, .position = 77, .live = {{{0}, {2}}, {{3}, {}}}}, .memory = {0.5, 2}};
  const auto words_of = [](const auto& state, std::uint8_t kind) { return bytes_of_words(wire::encode_state(state), kind); };
  return {words_of(lead, 0), words_of(protocols::lead_state{}, 0),
          words_of(protocols::holder_state{.current = {4}, .ordered = {5}}, 1), words_of(protocols::coordinator_state{}, 2)};
}

/// What is decided of jobs. A sound ledger stays so, and an entry counts once, whatever comes. The first byte: an entry, or a
/// ledger.
int fuzz_ledger(const std::uint8_t* data, std::size_t size) {
  namespace ledger = protocols::ledger;
  if (size == 0)
    return 0;
  const auto words = words_in({data + 1, size - 1});
  if (data[0] % 2 == 0) {
    const auto all = wire::decode_ledger(words);
    if (all && ledger::sound(*all))
      must(wire::encode(wire::decode_ledger(wire::encode(*all)).value()) == wire::encode(*all), "an encoded ledger is the same");
    return 0;
  }
  const auto entry = wire::decode_ledger_entry(words);
  if (!entry)
    return 0;
  auto now = running(); // compared by its bytes: a number may be NaN, which is unlike itself
  const auto before = wire::encode(now);
  must(ledger::apply(now, *entry) || wire::encode(now) == before, "an entry that is refused changes nothing");
  must(ledger::sound(now), "whatever is applied, the ledger is sound");
  const auto then = wire::encode(now);
  must(!ledger::apply(now, *entry) && wire::encode(now) == then, "an entry counts once");
  return 0;
}

std::vector<input> ledger_corpus() {
  namespace ledger = protocols::ledger;
  std::vector<input> out{bytes_of_words(wire::encode(running()), 0)};
  for (const ledger::entry& each : std::vector<ledger::entry>{
           ledger::submitted{2, true, ledger::bytes(5), 3}, ledger::started{1, 2, {"c"}, 78},
           ledger::ended{1, ledger::ending::done, "made 60 steps", ledger::bytes(3)}, ledger::forgotten{1},
           ledger::planned{1, 1, some_plan()}, ledger::incarnated{1, 1, true, 3, 4}, ledger::promoted{1, 1, {1}, {3}, 1},
           ledger::holder_lost{1, 1, {3}}, ledger::checkpointed{1, 1, {50}}})
    out.push_back(bytes_of_words(wire::encode(each), 1));
  return out;
}

} // namespace troupe::fuzz
