// SPDX-License-Identifier: BSD-3-Clause
// A run as lines that a person reads: who hears what from whom, when.
#pragma once

#include <deque>
#include <string>

#include "protocols/sim/listener.hpp"

namespace troupe::protocols::sim {

/// Keeps the last `most` lines, until the job has stopped.
class text_trace final : public listener {
public:
  explicit text_trace(std::size_t most = 100'000) : most_(most) {}
  void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) override;
  void computing(nanoseconds at, nanoseconds until, member who, const batch& of) override;
  void applying(nanoseconds at, nanoseconds until, holder_id shard, const close& round, std::span<const operand> sum) override;
  void stopped(nanoseconds at, const stop& how) override;

  const std::deque<std::string>& lines() const { return lines_; }

private:
  void add(nanoseconds at, const std::string& text);

  std::size_t most_;
  std::deque<std::string> lines_;
  bool done_ = false;
};

} // namespace troupe::protocols::sim
