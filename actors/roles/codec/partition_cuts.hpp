// SPDX-License-Identifier: BSD-3-Clause
// In which partitions a shard sends its parameters, as plans change that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protocols/message.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// The newest plan's partitions. What was sent once under a key has the same ones when it is sent again: who takes it may have
/// some of them. One thread.
class partition_cuts {
public:
  /// By plan::partition_kib. None: they never change.
  using cut_fn = std::function<std::vector<flat_range>(std::uint32_t kib)>;

  partition_cuts(std::vector<flat_range> first, cut_fn cut)
      : newest_(std::make_shared<const std::vector<flat_range>>(std::move(first))), cut_(std::move(cut)) {}

  void on(const protocols::plan& next) {
    if (cut_ && next.partition_kib != std::exchange(kib_, next.partition_kib))
      newest_ = std::make_shared<const std::vector<flat_range>>(cut_(kib_));
  }

  /// Of what is sent under this key (params::key).
  const std::vector<flat_range>& of(std::uint64_t key) {
    if (!cut_)
      return *newest_;
    const auto& out = *sent_.try_emplace(key, newest_).first->second;
    if (sent_.size() > most_keys && sent_.begin()->first != key)
      sent_.erase(sent_.begin());
    return out;
  }

private:
  static constexpr std::size_t most_keys = 1024;

  std::shared_ptr<const std::vector<flat_range>> newest_;
  cut_fn cut_;
  std::uint32_t kib_ = 0;
  std::map<std::uint64_t, std::shared_ptr<const std::vector<flat_range>>> sent_{};
};

} // namespace troupe::actors
