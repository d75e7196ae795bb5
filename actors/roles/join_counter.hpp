// SPDX-License-Identifier: BSD-3-Clause
// Collects the answers of several actors.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace troupe::actors {

/// Collects the answers of several actors into a `Whole`. Copies share it. Each handler that waits for an answer has a copy, adds
/// its answer, and calls `one_less`. The asker calls it too, once all requests are sent. Used on one actor's thread only.
template <class Whole>
class join_counter {
public:
  /// `take` is called with the whole, once.
  explicit join_counter(std::function<void(Whole)> take) : shared_(std::make_shared<shared>(Whole{}, std::move(take))) {}

  Whole& operator*() const { return shared_->whole; }
  Whole* operator->() const { return &shared_->whole; }

  void one_more() const { ++shared_->missing; }
  void one_less() const {
    if (--shared_->missing == 0)
      shared_->take(std::move(shared_->whole));
  }

private:
  struct shared {
    shared(Whole w, std::function<void(Whole)> t) : whole(std::move(w)), take(std::move(t)) {}
    Whole whole;
    std::function<void(Whole)> take;
    std::size_t missing = 1; ///< the asker's own
  };
  std::shared_ptr<shared> shared_;
};

} // namespace troupe::actors
