// SPDX-License-Identifier: BSD-3-Clause
// The five schedules, and groups.
#include "protocols/collective/schedule.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/assert.hpp"

namespace troupe::protocols::collective {

namespace {

using kind = step::kind;

/// The list of one rank, as it grows.
struct program {
  std::uint32_t self = 0;
  std::vector<step> steps{};

  void send(std::uint32_t stage, std::uint32_t to, std::uint32_t first, std::uint32_t last) {
    steps.push_back({kind::send, stage, to, first, last});
  }
  void take(std::uint32_t stage, std::uint32_t from, std::uint32_t first, std::uint32_t last) {
    steps.push_back({kind::take, stage, from, first, last});
  }
  void add(std::uint32_t stage, std::uint32_t from, std::uint32_t first, std::uint32_t last) {
    steps.push_back({kind::add, stage, from, first, last});
  }
  /// What comes and what it has, in rank order.
  void add_both(std::uint32_t stage, std::uint32_t from, std::uint32_t first, std::uint32_t last) {
    add(stage, std::min(self, from), first, last);
    add(stage, std::max(self, from), first, last);
  }
};

/// Segment s is summed by rank s.
std::vector<step> direct(std::uint32_t ranks, std::uint32_t rank) {
  program out{rank};
  for (std::uint32_t owner = 0; owner < ranks; ++owner)
    if (owner != rank)
      out.send(0, owner, owner, owner + 1);
  for (std::uint32_t from = 0; from < ranks; ++from)
    out.add(0, from, rank, rank + 1);
  for (std::uint32_t to = 0; to < ranks; ++to)
    if (to != rank)
      out.send(1, to, rank, rank + 1);
  for (std::uint32_t owner = 0; owner < ranks; ++owner)
    if (owner != rank)
      out.take(1, owner, owner, owner + 1);
  return out.steps;
}

/// In stage k rank r passes on segment r - k, to which the ranks before it have added theirs; then r + 1 - k, which is whole.
std::vector<step> ring(std::uint32_t ranks, std::uint32_t rank) {
  program out{rank};
  const auto wrapped = [ranks](std::uint32_t number) { return number % ranks; };
  const std::uint32_t next = wrapped(rank + 1), last = wrapped(rank + ranks - 1);
  for (std::uint32_t k = 0; k + 1 < ranks; ++k) {
    const std::uint32_t passes = wrapped(rank + ranks - k), gets = wrapped(rank + 2 * ranks - k - 1);
    out.send(k, next, passes, passes + 1);
    out.add(k, last, gets, gets + 1);
    out.add(k, rank, gets, gets + 1);
  }
  for (std::uint32_t k = 0; k + 1 < ranks; ++k) {
    const std::uint32_t stage = ranks - 1 + k, passes = wrapped(rank + 1 + ranks - k), gets = wrapped(rank + ranks - k);
    out.send(stage, next, passes, passes + 1);
    out.take(stage, last, gets, gets + 1);
  }
  return out.steps;
}

/// Ranks [begin, begin + size); rank begin + i has the sums of the block of segments [i width, (i + 1) width).
struct block {
  std::uint32_t begin = 0, size = 0, width = 0;
  bool has(std::uint32_t rank) const { return rank >= begin && rank < begin + size; }
};

std::vector<block> blocks_of(std::uint32_t ranks) {
  const std::uint32_t all = std::bit_floor(ranks);
  std::vector<block> out;
  for (std::uint32_t begin = 0, size = all; size > 0; size /= 2)
    if ((ranks & size) != 0) {
      out.push_back({begin, size, all / size});
      begin += size;
    }
  return out;
}

/// Stages: halving in each block; sums from each smaller block to the next larger one, the smallest first; back, the largest
/// first; doubling.
std::vector<step> halving(std::uint32_t ranks, std::uint32_t rank) {
  program out{rank};
  const std::vector<block> blocks = blocks_of(ranks);
  const auto count = static_cast<std::uint32_t>(blocks.size());
  const auto number = static_cast<std::uint32_t>(
      std::ranges::find_if(blocks, [rank](const block& each) { return each.has(rank); }) - blocks.begin());
  const block& own = blocks[number];
  const std::uint32_t inside = rank - own.begin;
  const auto halvings = static_cast<std::uint32_t>(std::countr_zero(blocks.front().size));
  const std::uint32_t upward = halvings, back = upward + count - 1, doubling = back + count - 1;

  std::uint32_t first = 0, last = std::bit_floor(ranks), stage = 0;
  for (std::uint32_t apart = own.size / 2; apart > 0; apart /= 2, ++stage) {
    const std::uint32_t partner = own.begin + (inside ^ apart), middle = (first + last) / 2;
    const bool keeps_upper = (inside & apart) != 0;
    keeps_upper ? out.send(stage, partner, first, middle) : out.send(stage, partner, middle, last);
    (keeps_upper ? first : last) = middle;
    out.add_both(stage, partner, first, last);
  }

  // A rank of a smaller block has the segments of several ranks of the next larger one.
  if (number + 1 < count) {
    const block& smaller = blocks[number + 1];
    const std::uint32_t below = smaller.begin + first / smaller.width;
    out.add_both(upward + count - 2 - number, below, first, last);
  }
  if (number > 0) {
    const block& larger = blocks[number - 1];
    for (std::uint32_t at = first; at < last; at += larger.width)
      out.send(upward + count - 1 - number, larger.begin + at / larger.width, at, at + larger.width);
    for (std::uint32_t at = first; at < last; at += larger.width)
      out.take(back + number - 1, larger.begin + at / larger.width, at, at + larger.width);
  }
  if (number + 1 < count) {
    const block& smaller = blocks[number + 1];
    out.send(back + number, smaller.begin + first / smaller.width, first, last);
  }

  stage = doubling;
  for (std::uint32_t apart = 1; apart < own.size; apart *= 2, ++stage) {
    const std::uint32_t partner = own.begin + (inside ^ apart), size = last - first;
    const bool is_upper = (inside & apart) != 0;
    out.send(stage, partner, first, last);
    is_upper ? out.take(stage, partner, first - size, first) : out.take(stage, partner, last, last + size);
    (is_upper ? first : last) = is_upper ? first - size : last + size;
  }
  return out.steps;
}

/// A binary tree over 1..n in order: its leaves are the odd numbers. None: the root.
std::optional<std::uint32_t> parent_in(std::uint32_t n, std::uint32_t i) {
  const std::uint32_t low = i & (~i + 1);
  const std::uint32_t right = (i ^ low) | (2 * low);
  const std::uint32_t out = right <= n ? right : i ^ low;
  return out != 0 ? std::optional{out} : std::nullopt;
}

std::uint32_t depth_in(std::uint32_t n, std::uint32_t i) {
  std::uint32_t out = 0;
  for (auto above = parent_in(n, i); above; above = parent_in(n, *above))
    ++out;
  return out;
}

std::vector<std::uint32_t> children_in(std::uint32_t n, std::uint32_t i) {
  std::vector<std::uint32_t> out;
  const std::uint32_t apart = (i & (~i + 1)) / 2;
  if (apart > 0)
    out.push_back(i - apart);
  for (std::uint32_t down = apart; down > 0; down /= 2) // lower, where there is no room for a whole tree
    if (i + down <= n) {
      out.push_back(i + down);
      break;
    }
  return out;
}

/// Half the range for each of two trees. The second is the first, moved by one rank: who has children in one has none in the
/// other.
std::vector<step> two_trees(std::uint32_t ranks, std::uint32_t rank) {
  program out{rank};
  std::uint32_t deepest = 0;
  for (std::uint32_t i = 1; i <= ranks; ++i)
    deepest = std::max(deepest, depth_in(ranks, i));
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const auto rank_at = [&](std::uint32_t i) { return (i - 1 + tree) % ranks; };
    const std::uint32_t self = (rank + ranks - tree) % ranks + 1, depth = depth_in(ranks, self);
    std::vector<std::uint32_t> children;
    for (const std::uint32_t child : children_in(ranks, self))
      children.push_back(rank_at(child));
    std::ranges::sort(children);
    for (const std::uint32_t child : children)
      out.add(deepest - depth - 1, child, tree, tree + 1);
    if (!children.empty())
      out.add(deepest - depth - 1, rank, tree, tree + 1);
    if (const auto parent = parent_in(ranks, self)) {
      out.send(deepest - depth, rank_at(*parent), tree, tree + 1);
      out.take(deepest + depth - 1, rank_at(*parent), tree, tree + 1);
    }
    for (const std::uint32_t child : children)
      out.send(deepest + depth, child, tree, tree + 1);
  }
  return out.steps;
}

std::vector<step> broadcast(std::uint32_t ranks, std::uint32_t rank) {
  program out{rank};
  for (std::uint32_t to = 0; to < ranks; ++to)
    if (to != rank)
      out.send(0, to, 0, 1);
  for (std::uint32_t from = 0; from < ranks; ++from)
    out.add(0, from, 0, 1);
  return out.steps;
}

/// Of parties 0 to `ranks` - 1.
std::vector<step> plain(algorithm which, std::uint32_t ranks, std::uint32_t rank) {
  if (ranks == 1)
    return {};
  switch (which) {
  case algorithm::direct:
    return direct(ranks, rank);
  case algorithm::ring:
    return ring(ranks, rank);
  case algorithm::halving:
    return halving(ranks, rank);
  case algorithm::tree:
    return two_trees(ranks, rank);
  case algorithm::broadcast:
    return broadcast(ranks, rank);
  }
  return {};
}

/// Stage 0 brings terms to the first of a group, stage 1 the sum back; those between follow.
/// Stages of groups: in and out of them, and from then on those between them.
constexpr std::uint32_t inward = 0, outward = 1, between = 2;

std::vector<step> grouped(algorithm which, const topology& among, std::uint32_t rank) {
  const std::uint32_t cuts = segments(which, among);
  std::vector<std::uint32_t> firsts;
  std::uint32_t party = 0;
  for (std::uint32_t begin = 0; const std::uint32_t size : among.groups) {
    if (rank >= begin)
      party = static_cast<std::uint32_t>(firsts.size());
    firsts.push_back(begin);
    begin += size;
  }
  program out{rank};
  const std::uint32_t first = firsts[party], end = first + among.groups[party];
  if (rank != first) {
    out.send(inward, first, 0, cuts);
    out.take(outward, first, 0, cuts);
    return out.steps;
  }
  if (end - first > 1)
    for (std::uint32_t term = first; term < end; ++term)
      out.add(inward, term, 0, cuts);
  for (step each : plain(which, among.parties(), party)) {
    each.stage += between;
    each.peer = firsts[each.peer];
    out.steps.push_back(each);
  }
  for (std::uint32_t to = first + 1; to < end; ++to)
    out.send(outward, to, 0, cuts);
  return out.steps;
}

} // namespace

cargo cargo_of(algorithm which, const topology& among, std::uint32_t stage) {
  const std::uint32_t first = among.groups.empty() ? 0 : between;
  if (!sums_terms(which) || stage < first)
    return cargo::plain;
  if (which == algorithm::broadcast)
    return cargo::copy;
  return stage == first ? cargo::term : cargo::sum;
}

bool sums_terms(algorithm which) {
  return which == algorithm::direct || which == algorithm::broadcast;
}

std::string_view name_of(algorithm which) {
  switch (which) {
  case algorithm::direct:
    return "direct";
  case algorithm::ring:
    return "ring";
  case algorithm::halving:
    return "halving";
  case algorithm::tree:
    return "tree";
  case algorithm::broadcast:
    return "broadcast";
  }
  return {};
}

std::optional<algorithm> algorithm_named(std::string_view name) {
  for (const algorithm each : {algorithm::direct, algorithm::ring, algorithm::halving, algorithm::tree, algorithm::broadcast})
    if (name_of(each) == name)
      return each;
  return std::nullopt;
}

algorithm algorithm_for(std::uint32_t ranks, std::uint64_t bytes) {
  constexpr std::uint64_t small = 256 * 1024;
  if (ranks <= 8)
    return algorithm::direct;
  return bytes < small ? algorithm::halving : algorithm::ring;
}

std::uint32_t segments(algorithm which, const topology& among) {
  const std::uint32_t ranks = among.parties();
  switch (which) {
  case algorithm::direct:
  case algorithm::ring:
    return ranks;
  case algorithm::halving:
    return std::bit_floor(ranks);
  case algorithm::tree:
    return 2;
  case algorithm::broadcast:
    break;
  }
  return 1;
}

std::vector<step> schedule(algorithm which, const topology& among, std::uint32_t rank) {
  TROUPE_ASSERT(rank < among.ranks);
  return among.groups.empty() ? plain(which, among.ranks, rank) : grouped(which, among, rank);
}

} // namespace troupe::protocols::collective
