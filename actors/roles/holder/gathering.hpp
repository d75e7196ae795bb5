// SPDX-License-Identifier: BSD-3-Clause
// Answers of several actors, handed on together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace troupe::actors {

/// What the answers of several actors make together. Copies share one; every handler that waits for an answer has a copy, changes
/// the whole, and says `one_less`. So does whoever asks, once everybody has been asked. On one actor's thread alone.
template <class Whole>
class gathering {
public:
  /// `take` gets the whole, once.
  explicit gathering(std::function<void(Whole)> take) : shared_(std::make_shared<shared>(Whole{}, std::move(take))) {}

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
