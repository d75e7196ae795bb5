// SPDX-License-Identifier: BSD-3-Clause
// NumPy's file format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "tensor/data/npy.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/parse_number.hpp"
#include "tensor/whole_file.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t fixed_bytes = 8; ///< magic and version
constexpr std::uint64_t longest_header = 1 << 16;

/// A header is a dictionary of Python with three keys, as numpy prints it. Reads no other expression.
class npy_header {
public:
  explicit npy_header(std::string_view text) : rest_(text) {}

  /// Empty: it was read.
  std::string read() {
    if (!take('{'))
      return "its header is not a dictionary";
    while (!take('}')) {
      const auto key = quoted();
      if (key.empty() || !take(':') || !read_value(key))
        return fmt::format("its header is not understood at \"{}\"", rest_.substr(0, shown));
      take(',');
    }
    return descr.empty() || !has_order_ || !has_shape_ ? "its header lacks descr, fortran_order or shape" : "";
  }

  std::string_view descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;

private:
  static constexpr std::size_t shown = 20;

  void skip() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0)
      rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    const bool there = rest_.starts_with(c);
    rest_.remove_prefix(there ? 1 : 0);
    return there;
  }
  std::string_view quoted() {
    skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"'))
      return {};
    const auto end = rest_.find(rest_[0], 1);
    if (end == rest_.npos)
      return {};
    const auto text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  /// Letters or digits.
  std::string_view word() {
    skip();
    const auto end = std::ranges::find_if_not(rest_, [](unsigned char c) { return std::isalnum(c) != 0; }) - rest_.begin();
    const auto text = rest_.substr(0, static_cast<std::size_t>(end));
    rest_.remove_prefix(text.size());
    return text;
  }

  bool read_value(std::string_view key) {
    if (key == "descr")
      return !(descr = quoted()).empty();
    if (key == "fortran_order") {
      const auto flag = word();
      fortran_order = flag == "True";
      return has_order_ = fortran_order || flag == "False";
    }
    if (key != "shape" || !take('('))
      return false;
    while (!take(')')) {
      const auto extent = parse_number<std::int64_t>(word());
      if (!extent || *extent < 0)
        return false;
      shape.push_back(*extent);
      take(',');
    }
    return has_shape_ = true;
  }

  std::string_view rest_;
  bool has_order_ = false, has_shape_ = false;
};

/// numpy's name: '<f4', '|u1'.
std::optional<array_type> type_of_numpy(std::string_view descr) {
  constexpr std::array<std::pair<std::string_view, array_type>, 9> names{{{"|u1", array_type::U8},
                                                                          {"|i1", array_type::I8},
                                                                          {"<u2", array_type::U16},
                                                                          {"<i2", array_type::I16},
                                                                          {"<u4", array_type::U32},
                                                                          {"<i4", array_type::I32},
                                                                          {"<i8", array_type::I64},
                                                                          {"<f4", array_type::F32},
                                                                          {"<f8", array_type::F64}}};
  const auto found = std::ranges::find(names, descr, &std::pair<std::string_view, array_type>::first);
  return found == names.end() ? std::nullopt : std::optional{found->second};
}

} // namespace

result<stored_array> open_npy(const std::filesystem::path& path) {
  auto opened = data_file::open(path);
  if (!opened)
    return opened.error();
  const auto& file = **opened;
  std::array<char, fixed_bytes + 4> head{};
  const auto has = std::min<std::uint64_t>(file.bytes(), head.size());
  if (auto read = file.read(0, std::as_writable_bytes(std::span{head}.first(has))); !read)
    return read.error();
  if (has < head.size() || !std::string_view(head.data(), head.size()).starts_with(magic))
    return file.fail("does not begin as a .npy file does; numpy.save writes such");
  const auto version = static_cast<unsigned char>(head[magic.size()]);
  if (version < 1 || version > 3)
    return file.fail(fmt::format("is of version {} of the format; 1 to 3 are known", version));
  const auto byte = [&head](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(head[fixed_bytes + i])}; };
  const std::uint64_t begin = version == 1 ? fixed_bytes + 2 : fixed_bytes + 4;
  const std::uint64_t length = byte(0) | byte(1) << 8 | (version == 1 ? 0 : byte(2) << 16 | byte(3) << 24);
  if (length > longest_header || begin + length > file.bytes())
    return file.fail(fmt::format("claims a header of {} bytes and has {} in all; truncated?", length, file.bytes()));
  std::string text(length, '\0');
  if (auto read = file.read(begin, std::as_writable_bytes(std::span{text})); !read)
    return read.error();
  npy_header header{text};
  if (const auto wrong = header.read(); !wrong.empty())
    return file.fail(wrong);
  const auto type = type_of_numpy(header.descr);
  if (!type)
    return file.fail(fmt::format("its elements are '{}'; it takes little-endian numbers of u1, i1, u2, i2, u4, i4, i8, f4 or f8: "
                                 "x.astype(\"float32\")",
                                 header.descr));
  if (header.fortran_order)
    return file.fail("is in Fortran's order; save numpy.ascontiguousarray(x)");
  const auto room = (file.bytes() - begin - length) / bytes_of(*type);
  std::uint64_t elements = 1;
  for (const auto extent : header.shape) {
    const auto wanted = static_cast<std::uint64_t>(extent);
    if (wanted != 0 && elements > room / wanted)
      elements = room + 1;
    else
      elements *= wanted;
  }
  if (elements > room || begin + length + elements * bytes_of(*type) != file.bytes())
    return file.fail(fmt::format("has {} bytes of data, and ({}) elements of {} need {}; {}", file.bytes() - begin - length,
                                 fmt::join(header.shape, ", "), header.descr, elements > room ? "more" : "fewer",
                                 elements > room ? "truncated?" : "it is no single array"));
  return stored_array{*opened, path.string(), *type, std::move(header.shape), begin + length};
}

result<void> save_npy(const std::filesystem::path& path, const std::vector<std::int64_t>& extents,
                      std::span<const float> values) {
  constexpr std::size_t alignment = 64;
  auto header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}", fmt::join(extents, ", "),
                            extents.size() == 1 ? "," : "");
  header.resize((fixed_bytes + 2 + header.size() + 1 + alignment - 1) / alignment * alignment - fixed_bytes - 2 - 1, ' ');
  header += '\n';
  std::string head(magic);
  head += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  head += header;
  const auto failed = write_whole_file(path.string(), [&](const open_file& out) {
    const int code = out.write_all(head.data(), head.size());
    return code != 0 ? code : out.write_all(values.data(), values.size_bytes());
  });
  if (!failed.is_irregular && failed.code == 0)
    return {};
  return error{errc::io, fmt::format("{}: cannot write it: {}", path.string(),
                                     failed.is_irregular ? "it is not a regular file" : std::strerror(failed.code))};
}

} // namespace troupe
