// SPDX-License-Identifier: BSD-3-Clause
// Windows of ids, each with the ids that follow them, as samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"

namespace troupe {

/// Ids one after the other, wherever they are. Immutable; any thread.
class id_source {
public:
  virtual ~id_source() = default;
  virtual std::int64_t size() const = 0;
  /// Copies ids [begin, begin + into.size()). Throws std::runtime_error where its file has changed.
  virtual void read(std::int64_t begin, std::span<std::int32_t> into) const = 0;
};

/// Those of a vector.
class ids_in_memory final : public id_source {
public:
  explicit ids_in_memory(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  std::int64_t size() const override { return std::ssize(ids_); }
  void read(std::int64_t begin, std::span<std::int32_t> into) const override;

private:
  std::vector<std::int32_t> ids_;
};

/// A stretch of ids and how it is cut. Sample i is ids [begin + i stride, begin + i stride + context), its labels are those one
/// place on. The last one needs an id that follows, so that there are floor((length - 1 - context) / stride) + 1.
struct window_cut {
  std::int64_t begin = 0, end = 0;
  std::int64_t context = 1, stride = 1;
  std::int64_t windows() const { return end - begin <= context ? 0 : (end - begin - 1 - context) / stride + 1; }
};

/// A data set of a cut's windows. `ids` are below `vocabulary`.
std::shared_ptr<const data_set> make_windows(std::shared_ptr<const id_source> ids, const window_cut& how, int vocabulary);

/// Where a half's ids come from, and the name with which errors begin.
struct text_half {
  std::shared_ptr<const id_source> ids;
  std::string name;
};

/// Both halves by `context` and `stride` (0: context). Without ids for the test, the last tenth of the others is the test half.
/// Windows of the test half do not overlap, so that each id is predicted once.
/// An error where a half has not one sample, or more than an epoch can number.
result<data_pair> cut_windows(const text_half& train, const text_half& test, const data_spec& how, int vocabulary);

} // namespace troupe
