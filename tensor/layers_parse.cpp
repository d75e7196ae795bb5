// SPDX-License-Identifier: BSD-3-Clause
// Reads the strings of a job file's layer list.
#include <algorithm>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "tensor/layers.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::layers {

namespace {

/// Larger extents than this are typing errors; the bound also keeps products of extents inside 64 bits.
constexpr std::int64_t largest_extent = 1 << 24;

std::string known_layers() {
  std::string known =
      R"("linear N [act]", "conv K HxW [act] [stride S] [pad P]", "pool N", "avgpool N", "flatten", "layernorm", "dropout RATE", or )";
  for (const auto& each : kernels::activations)
    known.append(&each == kernels::activations ? "" : " | ").append(each.name);
  return known;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    auto begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos)
      return words;
    text.remove_prefix(begin);
    auto end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<kernels::activation> parse_activation(std::string_view word) {
  const auto* hit = std::ranges::find(kernels::activations, word, &kernels::activation_facts::name);
  return hit == std::end(kernels::activations) ? std::nullopt : std::optional{hit->act};
}

/// Takes one layer's words from left to right; the first that does not fit becomes the error.
class reader {
public:
  explicit reader(std::string_view text) : text_(text), words_(split_words(text)) {}

  result<any> layer() {
    if (words_.empty())
      return wrong("names no layer", known_layers());
    const auto kind = take();
    auto parsed = read(kind);
    if (parsed && at_ < words_.size())
      return wrong(fmt::format("has \"{}\" left over", words_[at_]), known_layers());
    return parsed;
  }

private:
  result<any> read(std::string_view kind) {
    if (kind == "linear")
      return read_linear();
    if (kind == "conv")
      return read_conv();
    if (kind == "pool")
      return read_pool<max_pool>();
    if (kind == "avgpool")
      return read_pool<avg_pool>();
    if (kind == "flatten")
      return flatten{};
    if (kind == "layernorm")
      return layernorm{};
    if (kind == "dropout")
      return read_dropout();
    if (auto act = parse_activation(kind))
      return activate{*act};
    return wrong(fmt::format("begins with \"{}\", which is no layer", kind), known_layers());
  }

  result<any> read_linear() {
    auto units = extent(1);
    if (!units)
      return wrong(fmt::format("needs a number of units from 1 to {}", largest_extent), "\"linear 128 relu\"");
    return linear{*units, optional_activation()};
  }

  result<any> read_conv() {
    conv layer;
    auto channels = extent(1);
    if (!channels)
      return wrong(fmt::format("needs a number of channels from 1 to {}", largest_extent), conv_example);
    layer.channels = *channels;
    const auto kernel = take();
    const auto cross = kernel.find('x');
    auto h = parse_extent(kernel.substr(0, cross), 1);
    auto w = cross == std::string_view::npos ? std::nullopt : parse_extent(kernel.substr(cross + 1), 1);
    if (!h || !w)
      return wrong("needs a kernel HxW", conv_example);
    layer.kernel_h = *h;
    layer.kernel_w = *w;
    layer.act = optional_activation();
    if (take_if("stride")) {
      auto stride = extent(1);
      if (!stride)
        return wrong("needs a stride from 1 on", conv_example);
      layer.stride = *stride;
    }
    if (take_if("pad")) {
      auto padding = extent(0);
      if (!padding)
        return wrong("needs a padding from 0 on", conv_example);
      layer.padding = *padding;
    }
    return layer;
  }

  template <class Pool>
  result<any> read_pool() {
    auto size = extent(1);
    if (!size)
      return wrong("needs a window size from 1 on", "\"pool 2\"");
    return Pool{*size};
  }

  result<any> read_dropout() {
    auto rate = parse_number<double>(take());
    if (!rate || !(*rate >= 0 && *rate < 1))
      return wrong("needs a rate in [0, 1)", "\"dropout 0.5\"");
    return dropout{*rate};
  }

  std::string_view take() { return at_ < words_.size() ? words_[at_++] : std::string_view{}; }

  bool take_if(std::string_view word) {
    const bool there = at_ < words_.size() && words_[at_] == word;
    at_ += there ? 1 : 0;
    return there;
  }

  kernels::activation optional_activation() {
    auto act = at_ < words_.size() ? parse_activation(words_[at_]) : std::nullopt;
    at_ += act ? 1 : 0;
    return act.value_or(kernels::activation::none);
  }

  static std::optional<std::int64_t> parse_extent(std::string_view word, std::int64_t least) {
    auto number = parse_number<std::int64_t>(word);
    return number && *number >= least && *number <= largest_extent ? number : std::nullopt;
  }
  std::optional<std::int64_t> extent(std::int64_t least) { return parse_extent(take(), least); }

  error wrong(std::string_view problem, std::string_view right) const {
    return {errc::bad_model, fmt::format("\"{}\" {}; write {}", text_, problem, right)};
  }

  static constexpr std::string_view conv_example = R"("conv 32 3x3 relu stride 1 pad 1")";

  std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

} // namespace

result<any> parse(std::string_view text) {
  return reader{text}.layer();
}

} // namespace troupe::layers
