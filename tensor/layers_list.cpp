// SPDX-License-Identifier: BSD-3-Clause
// Lists of layers: which line is which, and what stands between braces.
#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>

#include "tensor/builder.hpp"
#include "tensor/layers.hpp"
#include "tensor/line.hpp"

namespace troupe::layers {

namespace {

struct row {
  std::string_view words, example;
  result<any> (*parse)(line&);
  std::string_view first() const { return words.substr(0, words.find(' ')); }
};

template <class Kind>
constexpr row row_of{Kind::words, Kind::example, [](line& l) -> result<any> {
                       auto layer = Kind::parse(l);
                       if (!layer)
                         return layer.error();
                       return any{std::move(*layer)};
                     }};

template <class... Kinds>
constexpr auto rows_of(const std::variant<Kinds...>*) {
  return std::array{row_of<Kinds>...};
}
constexpr auto rows = rows_of(static_cast<const any::kinds*>(nullptr));

/// Reads lines from first to last.
class list_reader {
public:
  explicit list_reader(const std::vector<std::string>& lines) : lines_(lines) {}

  result<std::vector<any>> whole() {
    auto all = body(0);
    if (all && at_ < lines_.size())
      return wrong(at_, "closes nothing; write \"residual {\" or \"repeat 6 {\" before what it ends");
    return all;
  }

private:
  /// Up to the line that ends it, or the list.
  result<std::vector<any>> body(int depth) {
    constexpr int deepest = 32;
    std::vector<any> layers;
    for (; at_ < lines_.size(); ++at_) {
      const auto number = at_;
      auto layer = parse(lines_[number]);
      if (!layer)
        return error{layer.error().code, fmt::format("layer {}: {}", number + 1, layer.error().message)};
      if (std::holds_alternative<end>(layer->kind))
        return layers;
      layer->name = fmt::format("layer {} \"{}\"", number + 1, lines_[number]);
      std::vector<any>* inner = nullptr;
      if (auto* sum = std::get_if<residual>(&layer->kind))
        inner = &sum->body;
      else if (auto* loop = std::get_if<repeat>(&layer->kind))
        inner = &loop->body;
      if (inner) {
        if (depth == deepest)
          return wrong(number, fmt::format("stands inside {} others; that is too deep", deepest));
        ++at_;
        auto read = body(depth + 1);
        if (!read)
          return read;
        if (at_ == lines_.size())
          return wrong(number, "is not closed; write \"}\" after its layers");
        if (read->empty())
          return wrong(number, "has no layers; write some before its \"}\"");
        *inner = std::move(*read);
      }
      layers.push_back(std::move(*layer));
    }
    return layers;
  }

  error wrong(std::size_t number, const std::string& problem) const {
    return {errc::bad_model, fmt::format("layer {} \"{}\" {}", number + 1, lines_[number], problem)};
  }

  const std::vector<std::string>& lines_;
  std::size_t at_ = 0;
};

} // namespace

std::string described() {
  std::string known;
  for (const auto& each : rows)
    if (each.words != end::words && !each.words.empty())
      known += fmt::format("\"{}\", ", each.words);
  known += "or ";
  for (const auto& each : kernels::activations)
    known.append(&each == kernels::activations ? "" : " | ").append(each.name);
  return known;
}

result<any> parse(std::string_view text) {
  line l{text};
  if (l.empty())
    return l.wrong("names no layer", described());
  const auto kind = l.take();
  const auto hit = std::ranges::find_if(rows, [kind](const row& each) { return !each.words.empty() && each.first() == kind; });
  result<any> parsed = error{};
  if (hit != rows.end()) {
    parsed = hit->parse(l);
  } else if (line::activation_of(kind)) {
    l.put_back();
    parsed = row_of<activate>.parse(l);
  } else {
    return l.wrong(fmt::format("begins with \"{}\", which is no layer", kind), described());
  }
  if (parsed && !l.rest().empty())
    return l.wrong(fmt::format("has \"{}\" left over", l.rest()), described());
  return parsed;
}

result<std::vector<any>> parse(const std::vector<std::string>& list) {
  return list_reader{list}.whole();
}

std::vector<std::string> all_words() {
  std::vector<std::string> all;
  for (const auto& each : rows) {
    std::string plain{each.words};
    std::ranges::replace_if(
        plain, [](char c) { return c == '[' || c == ']' || c == '|' || c == '.'; }, ' ');
    std::istringstream in(plain);
    for (std::string word; in >> word;) {
      const bool is_word = std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || c == '{' || c == '}'; });
      if (is_word && word != "act" && std::ranges::find(all, word) == all.end())
        all.push_back(std::move(word));
    }
  }
  for (const auto& each : kernels::activations)
    all.emplace_back(each.name);
  return all;
}

result<residual> residual::parse(line& l) {
  if (!l.take_if("{"))
    return l.wrong("needs a brace", fmt::format("\"{}\", then its layers, then \"}}\"", example));
  return residual{};
}
value_id residual::build(builder& b, value_id x) const {
  b.begin_block();
  const auto y = b.run(body, x);
  b.end_block();
  if (b.failed())
    return y;
  if (b.dims(y) != b.dims(x) || b.at(y).type != b.at(x).type)
    return b.fail(fmt::format("its layers make {} of {}, and a sum needs two of one shape; keep the extents", b.at(y).to_string(),
                              b.at(x).to_string()));
  return b.apply(ops::binary{kernels::binary_op::add}, {x, y});
}

result<repeat> repeat::parse(line& l) {
  constexpr std::int64_t most = 10'000;
  auto times = l.extent();
  if (!times || *times > most)
    return l.wrong(fmt::format("needs a number of times from 1 to {}", most), fmt::format("\"{}\"", example));
  if (!l.take_if("{"))
    return l.wrong("needs a brace", fmt::format("\"{}\", then its layers, then \"}}\"", example));
  return repeat{*times, {}};
}
value_id repeat::build(builder& b, value_id x) const {
  for (std::int64_t i = 0; i < times && !b.failed(); ++i) {
    b.begin_block();
    x = b.run(body, x);
    b.end_block();
  }
  return x;
}

value_id end::build(builder& b, value_id) const {
  return b.fail("closes nothing");
}

} // namespace troupe::layers
