// SPDX-License-Identifier: BSD-3-Clause
// Joins the partitions of flat tensors, without a copy if they already lie side by side.
#pragma once

#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/buffer.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// What of a flat array lies where it will be: the memory of all of it, and these ranges, which do not touch.
struct incomplete_array {
  kernels::buffer flat{}; ///< none: nothing is there
  std::vector<flat_range> there{};
};

/// Collects the partitions of several tensors at once, each under its key (a push, a version). A tensor covers `whole`.
///
/// The lane's thread asks `place` where to read a partition to; the owner's thread calls `add` for each partition and `take` for
/// a complete tensor. Partitions that a lane placed, or that a local sender cut from one block, are joined without a copy.
/// Thread-safe with one owner; a partition that overlaps one already there, or lies outside `whole`, is refused and changes
/// nothing.
template <class Key>
class assembler {
public:
  using allocate_fn = std::function<kernels::buffer(std::size_t bytes)>;
  /// Copies a whole block; the default for host memory.
  using copy_fn = std::function<void(const kernels::buffer& to, const kernels::buffer& from)>;

  assembler(flat_range whole, allocate_fn allocate, copy_fn copy = copy_on_host)
      : whole_(whole), allocate_(std::move(allocate)), copy_(std::move(copy)) {}

  flat_range whole() const { return whole_; }

  /// Memory for a partition, or an empty buffer when it does not fit, or is there. At most `max_open` tensors are open at a time.
  kernels::buffer place(const Key& key, flat_range where) {
    std::lock_guard guard{mutex_};
    const auto found = open_.find(key);
    if (!inside(where) || (found == open_.end() ? open_.size() >= max_open : found->second.overlaps(where)))
      return {};
    auto& entry = open_[key];
    if (!entry.flat)
      entry.flat = allocate_(floats_to_bytes(whole_.size()));
    return entry.flat.slice(floats_to_bytes(where.begin - whole_.begin), floats_to_bytes(where.size()));
  }

  /// Adds a partition; false if it was refused. Once a partition of the tensor was placed, the others are copied beside it, while
  /// the rest is still coming.
  bool add(const Key& key, flat_range where, kernels::buffer payload) {
    if (!inside(where) || payload.bytes() != floats_to_bytes(where.size()))
      return false;
    entry* to = nullptr;
    kernels::buffer flat;
    {
      std::lock_guard guard{mutex_};
      auto found = open_.find(key);
      if (found == open_.end() ? open_.size() >= max_open : found->second.overlaps(where))
        return false;
      to = &open_[key];
      to->parts.emplace(where.begin, part{where, std::move(payload)});
      to->covered += where.size();
      flat = to->flat;
    }
    if (flat) // the lane's thread looks at no part's data
      for (auto& [begin, each] : to->parts)
        if (!each.data.shares_block_with(flat)) {
          auto place = flat.slice(floats_to_bytes(begin - whole_.begin), each.data.bytes());
          copy_(place, each.data);
          each.data = std::move(place);
        }
    return true;
  }

  /// How many partitions of `key` have come.
  std::size_t parts(const Key& key) const {
    std::lock_guard guard{mutex_};
    auto found = open_.find(key);
    return found == open_.end() ? 0 : found->second.parts.size();
  }

  /// Of a tensor, the parts that were placed.
  incomplete_array so_far(const Key& key) const {
    std::lock_guard guard{mutex_};
    incomplete_array out;
    if (const auto found = open_.find(key); found != open_.end() && found->second.flat) {
      out.flat = found->second.flat;
      for (const auto& [begin, part] : found->second.parts)
        if (!part.data.shares_block_with(out.flat))
          continue;
        else if (!out.there.empty() && out.there.back().end == begin)
          out.there.back().end = part.where.end;
        else
          out.there.push_back(part.where);
    }
    return out;
  }

  /// The whole tensor once it is complete; its entry is gone.
  std::optional<kernels::buffer> take(const Key& key) {
    entry ready;
    {
      std::lock_guard guard{mutex_};
      auto found = open_.find(key);
      if (found == open_.end() || found->second.covered != whole_.size())
        return std::nullopt;
      ready = std::move(found->second);
      open_.erase(found);
    }
    return join(std::move(ready));
  }

  /// Forgets every tensor whose key `obsolete` accepts. Memory that a lane is reading into stays alive until it is done.
  template <class Predicate>
  void drop_if(Predicate obsolete) {
    std::lock_guard guard{mutex_};
    std::erase_if(open_, [&](const auto& item) { return obsolete(item.first); });
  }

private:
  struct part {
    flat_range where;
    kernels::buffer data;
  };
  struct entry {
    kernels::buffer flat; ///< made by the first place()
    std::map<std::int64_t, part> parts;
    std::int64_t covered = 0;

    bool overlaps(flat_range where) const {
      auto after = parts.lower_bound(where.begin);
      return (after != parts.end() && after->first < where.end)
             || (after != parts.begin() && std::prev(after)->second.where.end > where.begin);
    }
  };

  static constexpr std::size_t max_open = 4096;

  static void copy_on_host(const kernels::buffer& to, const kernels::buffer& from) {
    std::memcpy(to.data(), from.data(), from.bytes());
  }
  static std::size_t floats_to_bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

  bool inside(flat_range where) const { return where.begin < where.end && whole_.contains(where); }

  kernels::buffer join(entry ready) const {
    const auto& first = ready.parts.begin()->second.data;
    auto lies_in_place = [&](const part& p, const std::byte* base, const kernels::buffer& block) {
      return p.data.shares_block_with(block) && p.data.data() == base + floats_to_bytes(p.where.begin - whole_.begin);
    };
    bool contiguous = true;
    for (const auto& [begin, p] : ready.parts)
      contiguous = contiguous && lies_in_place(p, first.data(), first);
    if (contiguous)
      return first.window(first.data(), floats_to_bytes(whole_.size()));
    if (!ready.flat)
      ready.flat = allocate_(floats_to_bytes(whole_.size()));
    for (const auto& [begin, p] : ready.parts)
      if (!lies_in_place(p, ready.flat.data(), ready.flat))
        copy_(ready.flat.slice(floats_to_bytes(begin - whole_.begin), p.data.bytes()), p.data);
    return ready.flat;
  }

  flat_range whole_;
  allocate_fn allocate_;
  copy_fn copy_;
  mutable std::mutex mutex_;
  std::map<Key, entry> open_;
};

} // namespace troupe::actors
