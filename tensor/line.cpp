// SPDX-License-Identifier: BSD-3-Clause
// Words and the numbers that they stand for.
#include "tensor/line.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "tensor/parse_number.hpp"

namespace troupe::layers {

namespace {

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

} // namespace

line::line(std::string_view text) : text_(text), words_(split_words(text)) {}

bool line::take_if(std::string_view word) {
  const bool there = at_ < words_.size() && words_[at_] == word;
  at_ += there ? 1 : 0;
  return there;
}

std::optional<std::int64_t> line::extent_of(std::string_view word, std::int64_t least) {
  auto number = parse_number<std::int64_t>(word);
  return number && *number >= least && *number <= largest_extent ? number : std::nullopt;
}

std::optional<double> line::rate() {
  auto rate = parse_number<double>(take());
  return rate && *rate >= 0 && *rate < 1 ? rate : std::nullopt;
}

kernels::activation line::optional_activation() {
  auto act = at_ < words_.size() ? activation_of(words_[at_]) : std::nullopt;
  at_ += act ? 1 : 0;
  return act.value_or(kernels::activation::none);
}

std::optional<kernels::activation> line::activation_of(std::string_view word) {
  const auto* hit = std::ranges::find(kernels::activations, word, &kernels::activation_facts::name);
  return hit == std::end(kernels::activations) ? std::nullopt : std::optional{hit->act};
}

error line::wrong(std::string_view problem, std::string_view right) const {
  return {errc::bad_model, fmt::format("\"{}\" {}; write {}", text_, problem, right)};
}

} // namespace troupe::layers
