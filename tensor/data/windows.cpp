// SPDX-License-Identifier: BSD-3-Clause
// Cutting and gathering windows.
#include "tensor/data/windows.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe {

namespace {

class window_set final : public data_set {
public:
  window_set(std::shared_ptr<const id_source> ids, const window_cut& how, int vocabulary)
      : ids_(std::move(ids)), how_(how), format_{.sample = {how.context},
                                                 .classes = vocabulary,
                                                 .type = dtype::i32,
                                                 .ids = vocabulary,
                                                 .labels = {how.context}} {
    TROUPE_ASSERT(how.context > 0 && how.stride > 0 && how.begin >= 0 && how.end <= ids_->size());
  }

  std::int64_t size() const override { return how_.windows(); }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t) const override { return 0; }

  void gather(std::span<const std::uint32_t> indices, void* samples, void* labels) const override {
    auto* x = static_cast<std::int32_t*>(samples);
    auto* next = static_cast<std::int32_t*>(labels);
    std::vector<std::int32_t> window(static_cast<std::size_t>(how_.context + 1));
    for (auto index : indices) {
      TROUPE_ASSERT(index < size());
      ids_->read(how_.begin + index * how_.stride, window);
      x = std::copy(window.begin(), window.end() - 1, x);
      next = std::copy(window.begin() + 1, window.end(), next);
    }
  }

private:
  std::shared_ptr<const id_source> ids_;
  window_cut how_;
  data_format format_;
};

} // namespace

void ids_in_memory::read(std::int64_t begin, std::span<std::int32_t> into) const {
  std::copy_n(ids_.begin() + begin, into.size(), into.begin());
}

std::shared_ptr<const data_set> make_windows(std::shared_ptr<const id_source> ids, const window_cut& how, int vocabulary) {
  return std::make_shared<window_set>(std::move(ids), how, vocabulary);
}

result<data_pair> cut_windows(const text_half& train, const text_half& test, const data_spec& how, int vocabulary) {
  if (how.context < 1 || how.stride < 0)
    return error{errc::bad_option,
                 fmt::format("data.context = {} and data.stride = {}; they are at least 1", how.context, how.stride)};
  const window_cut whole{
      .begin = 0, .end = train.ids->size(), .context = how.context, .stride = how.stride == 0 ? how.context : how.stride};
  window_cut first = whole, last = whole;
  last.stride = std::max(whole.stride, whole.context);
  if (test.ids) {
    last.end = test.ids->size();
  } else {
    first.end = last.begin = whole.end - whole.end / 10;
  }
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::pair<const text_half*, window_cut*> halves[]{{test.ids ? &test : &train, &last}, {&train, &first}};
  for (const auto& [half, cut] : halves) {
    const auto length = cut->end - cut->begin;
    const char* part = test.ids ? "it" : cut == &last ? "its last tenth, the test half," : "what is before its last tenth";
    if (cut->windows() == 0)
      return error{errc::bad_data,
                   fmt::format("{}: {} has {} ids, and a sample of data.context = {} needs {}; take a longer text, or a shorter "
                               "context",
                               half->name, part, length, how.context, how.context + 1)};
    if (cut->windows() > most)
      return error{errc::bad_data,
                   fmt::format("{}: {} has {} samples, and an epoch numbers {} at most; give a larger data.stride", half->name,
                               part, cut->windows(), most)};
  }
  return data_pair{.train = make_windows(train.ids, first, vocabulary),
                   .test = make_windows(test.ids ? test.ids : train.ids, last, vocabulary)};
}

} // namespace troupe
