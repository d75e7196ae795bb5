// SPDX-License-Identifier: BSD-3-Clause
// Texts: characters to ids, ids to windows.
#include "tensor/data/text.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "tensor/data/byte_source.hpp"

namespace troupe {

namespace {

constexpr std::size_t most_ids = std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
constexpr int bytes = 256;

/// How many bytes the character at the begin of `text` has; 0: it is not UTF-8 (RFC 3629).
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = at(0);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xC2 && first < 0xE0 ? 2
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xF0 && first < 0xF5 ? 4
                                                           : 0;
  if (size == 0 || size > text.size())
    return 0;
  for (std::size_t i = 1; i < size; ++i)
    if (at(i) < 0x80 || at(i) > 0xBF)
      return 0;
  const bool overlong = (first == 0xE0 && at(1) < 0xA0) || (first == 0xF0 && at(1) < 0x90);
  const bool beyond = (first == 0xED && at(1) > 0x9F) || (first == 0xF4 && at(1) > 0x8F); // surrogates; above U+10FFFF
  return overlong || beyond ? 0 : size;
}

result<encoded_text> encode_characters(std::string_view text) {
  std::map<std::string_view, std::uint16_t> id_of;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = character_bytes(text.substr(at));
    if (size == 0)
      return error{
          errc::bad_data,
          fmt::format("byte {} is in no character of UTF-8; write data.vocabulary = \"bytes\", or convert the text", at)};
    id_of.emplace(text.substr(at, size), std::uint16_t{0});
    if (id_of.size() > most_ids)
      return error{errc::bad_data, fmt::format("more than {} different characters; write data.vocabulary = \"bytes\"", most_ids)};
    at += size;
  }
  encoded_text out;
  for (auto& [character, id] : id_of) {
    id = static_cast<std::uint16_t>(out.vocabulary.size());
    out.vocabulary.emplace_back(character);
  }
  out.ids.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto size = character_bytes(text.substr(at));
    out.ids.push_back(id_of.at(text.substr(at, size)));
    at += size;
  }
  return out;
}

encoded_text encode_bytes(std::string_view text) {
  encoded_text out;
  for (int byte = 0; byte < bytes; ++byte)
    out.vocabulary.emplace_back(1, static_cast<char>(byte));
  out.ids.reserve(text.size());
  for (const char c : text)
    out.ids.push_back(static_cast<unsigned char>(c));
  return out;
}

/// A part of a text, whose windows are its samples.
class text_set final : public data_set {
public:
  text_set(std::shared_ptr<const encoded_text> text, std::span<const std::uint16_t> ids, const data_spec& how)
      : text_(std::move(text)), ids_(ids), context_(how.context),
        stride_(how.stride), format_{.sample = {context_},
                                     .classes = static_cast<int>(text_->vocabulary.size()),
                                     .type = dtype::i32,
                                     .ids = std::ssize(text_->vocabulary),
                                     .labels = {context_}} {}

  std::int64_t size() const override { return (std::ssize(ids_) - 1 - context_) / stride_ + 1; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t) const override { return 0; }

  void gather(std::span<const std::uint32_t> indices, void* samples, void* labels) const override {
    auto* x = static_cast<std::int32_t*>(samples);
    auto* next = static_cast<std::int32_t*>(labels);
    for (auto index : indices) {
      TROUPE_ASSERT(index < size());
      const auto window = ids_.subspan(static_cast<std::size_t>(index * stride_), static_cast<std::size_t>(context_ + 1));
      x = std::copy(window.begin(), window.end() - 1, x);
      next = std::copy(window.begin() + 1, window.end(), next);
    }
  }

private:
  std::shared_ptr<const encoded_text> text_;
  std::span<const std::uint16_t> ids_;
  std::int64_t context_, stride_;
  data_format format_;
};

} // namespace

result<encoded_text> encode_text(std::string_view text, std::string_view vocabulary) {
  return vocabulary == "bytes" ? encode_bytes(text) : encode_characters(text);
}

result<data_pair> load_text(const data_spec& spec) {
  if (spec.vocabulary != "characters" && spec.vocabulary != "bytes")
    return error{errc::bad_option, fmt::format("data.vocabulary = \"{}\"; it is \"characters\" or \"bytes\"", spec.vocabulary)};
  if (spec.context < 1 || spec.stride < 0)
    return error{errc::bad_option,
                 fmt::format("data.context = {} and data.stride = {}; they are at least 1", spec.context, spec.stride)};
  const auto wrong = [&spec](const std::string& message) {
    return error{errc::bad_data, fmt::format("{}: {}", spec.path, message)};
  };
  const auto file = read_whole_file(spec.path);
  if (!file)
    return file.error();
  auto encoded = encode_text({reinterpret_cast<const char*>(file->data()), file->size()}, spec.vocabulary);
  if (!encoded)
    return wrong(encoded.error().message);
  const auto text = std::make_shared<const encoded_text>(std::move(*encoded));
  const auto whole = std::span{text->ids};
  const auto held_out = whole.size() / 10;
  if (std::cmp_less(held_out, spec.context + 1) || std::cmp_less(whole.size() - held_out, spec.context + 1))
    return wrong(
        fmt::format("its last tenth, the test half, has {} ids, and a sample of data.context = {} needs {}; take a longer "
                    "text, or a shorter context",
                    held_out, spec.context, spec.context + 1));
  if (text->vocabulary.size() < 2)
    return wrong("it has one character alone, and nothing is to be predicted");
  auto how = spec;
  how.stride = spec.stride == 0 ? spec.context : spec.stride;
  return data_pair{.train = std::make_shared<text_set>(text, whole.first(whole.size() - held_out), how),
                   .test = std::make_shared<text_set>(text, whole.last(held_out), how),
                   .scaling = {}};
}

} // namespace troupe
