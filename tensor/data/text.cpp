// SPDX-License-Identifier: BSD-3-Clause
// Texts on the disk: which characters, and where each of them begins.
#include "tensor/data/text.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tensor/data/data_file.hpp"
#include "tensor/data/vocabulary.hpp"
#include "tensor/data/windows.hpp"

namespace troupe {

namespace {

/// The place of every so many characters is kept, and those between are counted.
constexpr std::int64_t characters_per_mark = 256;
constexpr std::size_t longest_character = 4;
constexpr std::size_t scanned_at_once = 1 << 20;
constexpr std::uint32_t code_points = 0x110000;

/// What one pass over a text finds.
struct scanned_text {
  std::vector<std::uint32_t> points;  ///< those that occur, ascending
  std::vector<std::uint64_t> marks{}; ///< the byte at which each 256th character begins; empty where every one has one byte
  std::int64_t characters = 0;
};

result<scanned_text> scan(const data_file& file) {
  scanned_text found;
  std::vector<bool> occurs(code_points, false);
  std::string piece;
  for (std::uint64_t begin = 0, at = 0; begin < file.bytes(); piece.erase(0, at), begin += at, at = 0) {
    const auto kept = piece.size();
    piece.resize(std::min<std::uint64_t>(file.bytes() - begin, scanned_at_once));
    if (auto read = file.read(begin + kept, std::as_writable_bytes(std::span{piece}.subspan(kept))); !read)
      return read.error();
    const bool is_last = begin + piece.size() == file.bytes();
    while (at < piece.size() && (is_last || at + longest_character <= piece.size())) {
      const auto [point, size] = first_character(std::string_view{piece}.substr(at));
      if (size == 0)
        return file.fail(fmt::format(
            "byte {} is in no character of UTF-8; write data.vocabulary = \"bytes\", or convert the text", begin + at));
      if (found.characters++ % characters_per_mark == 0)
        found.marks.push_back(begin + at);
      occurs[point] = true;
      at += size;
    }
  }
  for (std::uint32_t point = 0; point < code_points; ++point)
    if (occurs[point])
      found.points.push_back(point);
  if (std::cmp_equal(found.characters, file.bytes()))
    found.marks = {};
  return found;
}

/// The ids of a file, made when they are asked for.
class text_on_disk final : public id_source {
public:
  text_on_disk(std::shared_ptr<const data_file> file, std::shared_ptr<const vocabulary> words, std::int64_t size,
               std::vector<std::uint64_t> marks)
      : file_(std::move(file)), words_(std::move(words)), size_(size), marks_(std::move(marks)) {}

  std::int64_t size() const override { return size_; }

  void read(std::int64_t begin, std::span<std::int32_t> into) const override {
    marks_.empty() ? read_single_bytes(begin, into) : read_characters(begin, into);
  }

private:
  void read_single_bytes(std::int64_t begin, std::span<std::int32_t> into) const {
    // The bytes take the last quarter of the ids' place, and each is read before its id is written there.
    const auto bytes = std::as_writable_bytes(into).last(into.size());
    file_->read(static_cast<std::uint64_t>(begin), bytes).value();
    for (std::size_t i = 0; i < into.size(); ++i)
      into[i] = known(words_->id_of(std::to_integer<std::uint32_t>(bytes[i])), static_cast<std::uint64_t>(begin) + i);
  }

  void read_characters(std::int64_t begin, std::span<std::int32_t> into) const {
    auto place = marks_[static_cast<std::size_t>(begin / characters_per_mark)];
    auto skipped = begin % characters_per_mark;
    std::string text(
        std::min<std::uint64_t>((static_cast<std::size_t>(skipped) + into.size()) * longest_character, file_->bytes() - place),
        '\0');
    file_->read(place, std::as_writable_bytes(std::span{text})).value();
    for (std::string_view rest = text; !into.empty();) {
      const auto [point, size] = rest.empty() ? utf8_character{} : first_character(rest);
      const auto id = known(size == 0 ? -1 : words_->id_of(point), place);
      if (skipped-- <= 0) {
        into.front() = id;
        into = into.subspan(1);
      }
      rest.remove_prefix(size);
      place += size;
    }
  }

  std::int32_t known(std::int32_t id, std::uint64_t place) const {
    if (id < 0)
      throw std::runtime_error(
          file_
              ->fail(fmt::format("byte {} has changed since the vocabulary was read; a file must not change while it is used",
                                 place))
              .message);
    return id;
  }

  std::shared_ptr<const data_file> file_;
  std::shared_ptr<const vocabulary> words_;
  std::int64_t size_;
  std::vector<std::uint64_t> marks_; ///< see scanned_text
};

} // namespace

result<data_pair> load_text(const data_spec& spec) {
  const bool characters = spec.vocabulary == "characters";
  if (!characters && spec.vocabulary != "bytes")
    return error{errc::bad_option, fmt::format("data.vocabulary = \"{}\"; it is \"characters\" or \"bytes\"", spec.vocabulary)};
  const auto opened = data_file::open_unpacked(spec.path);
  if (!opened)
    return opened.error();
  const auto& file = *opened;
  scanned_text found{.points = {}, .characters = static_cast<std::int64_t>(file->bytes())};
  if (characters) {
    auto scanned = scan(*file);
    if (!scanned)
      return scanned.error();
    found = std::move(*scanned);
  }
  const auto words = std::make_shared<const vocabulary>(characters ? vocabulary::of_characters(std::move(found.points))
                                                                   : vocabulary::of_bytes());
  const auto ids = std::make_shared<text_on_disk>(file, words, found.characters, std::move(found.marks));
  auto pair = cut_windows({ids, spec.path}, {}, spec, static_cast<int>(words->size()));
  if (pair && words->size() < 2)
    return file->fail("it has one character alone, and nothing is to be predicted");
  if (pair)
    pair->words = words;
  return pair;
}

} // namespace troupe
