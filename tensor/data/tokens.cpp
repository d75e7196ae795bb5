// SPDX-License-Identifier: BSD-3-Clause
// Token files, read in place.
#include "tensor/data/tokens.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tensor/data/byte_source.hpp"
#include "tensor/data/data_file.hpp"
#include "tensor/data/windows.hpp"

namespace troupe {

namespace {

constexpr std::uint32_t header_magic = 20240520, header_version = 1;
constexpr std::uint64_t header_words = 256;

/// Ids of a file from byte `begin` to its end.
class token_file final : public id_source {
public:
  token_file(std::shared_ptr<const data_file> file, std::uint64_t begin, const data_spec& spec)
      : file_(std::move(file)), begin_(begin), id_bytes_(spec.token_type == "uint32" ? 4 : 2),
        vocabulary_(static_cast<std::uint32_t>(spec.vocabulary_size)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>((file_->bytes() - begin_) / id_bytes_); }

  void read(std::int64_t begin, std::span<std::int32_t> into) const override { read_checked(begin, into).value(); }

  result<void> look_through() const {
    constexpr std::int64_t ids_at_once = 1 << 18;
    std::vector<std::int32_t> piece;
    const auto end = std::min(size(), static_cast<std::int64_t>(max_data_bytes / id_bytes_));
    for (std::int64_t at = 0; at < end; at += ids_at_once) {
      piece.resize(static_cast<std::size_t>(std::min(end - at, ids_at_once)));
      if (auto read = read_checked(at, piece); !read)
        return read;
    }
    return {};
  }

private:
  result<void> read_checked(std::int64_t begin, std::span<std::int32_t> into) const {
    const auto place = begin_ + static_cast<std::uint64_t>(begin) * id_bytes_;
    return id_bytes_ == 2 ? read_as<std::uint16_t>(place, into) : read_as<std::uint32_t>(place, into);
  }

  template <class Id>
  result<void> read_as(std::uint64_t place, std::span<std::int32_t> into) const {
    std::vector<Id> raw(into.size());
    if (auto read = file_->read(place, std::as_writable_bytes(std::span{raw})); !read)
      return read;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] >= vocabulary_)
        return file_->fail(fmt::format("the id at byte {} is {}, and data.vocabulary_size = {}; is data.token_type right?",
                                       place + i * sizeof(Id), raw[i], vocabulary_));
      into[i] = static_cast<std::int32_t>(raw[i]);
    }
    return {};
  }

  std::shared_ptr<const data_file> file_;
  std::uint64_t begin_, id_bytes_;
  std::uint32_t vocabulary_;
};

/// Where the ids begin.
result<std::uint64_t> first_id(const data_file& file, std::uint64_t id_bytes) {
  std::array<std::uint32_t, 3> header{}; // magic, version, count
  std::uint64_t begin = 0;
  if (file.bytes() >= sizeof header) {
    if (auto read = file.read(0, std::as_writable_bytes(std::span{header})); !read)
      return read.error();
    if (header[0] == header_magic) {
      begin = header_words * sizeof(std::uint32_t);
      if (header[1] != header_version)
        return file.fail(fmt::format("its header is of version {}; {} is known", header[1], header_version));
      if (file.bytes() != begin + header[2] * id_bytes)
        return file.fail(fmt::format("its header says {} ids, for which a file has {} bytes, and it has {}; is it truncated, or "
                                     "data.token_type another?",
                                     header[2], begin + header[2] * id_bytes, file.bytes()));
    }
  }
  if ((file.bytes() - begin) % id_bytes != 0)
    return file.fail(
        fmt::format("has {} bytes, and an id has {}; is it truncated, or data.token_type another?", file.bytes(), id_bytes));
  return begin;
}

result<text_half> open_tokens(const std::string& path, const data_spec& spec) {
  const auto file = data_file::open(path);
  if (!file)
    return file.error();
  const auto begin = first_id(**file, spec.token_type == "uint32" ? 4 : 2);
  if (!begin)
    return begin.error();
  auto ids = std::make_shared<const token_file>(*file, *begin, spec);
  if (auto fit = ids->look_through(); !fit)
    return fit.error();
  return text_half{ids, path};
}

} // namespace

result<data_pair> load_tokens(const data_spec& spec) {
  constexpr std::int64_t most = 1 << 24;
  if (spec.vocabulary_size < 2 || spec.vocabulary_size > most)
    return error{errc::bad_option,
                 fmt::format("data.vocabulary_size = {}; it is 2 to {}: how many ids there are", spec.vocabulary_size, most)};
  if (spec.token_type != "uint16" && spec.token_type != "uint32")
    return error{errc::bad_option, fmt::format("data.token_type = \"{}\"; it is \"uint16\" or \"uint32\"", spec.token_type)};
  const auto train = open_tokens(spec.path, spec);
  if (!train)
    return train.error();
  text_half test;
  if (!spec.test_path.empty()) {
    auto opened = open_tokens(spec.test_path, spec);
    if (!opened)
      return opened.error();
    test = std::move(*opened);
  }
  return cut_windows(*train, test, spec, static_cast<int>(spec.vocabulary_size));
}

} // namespace troupe
