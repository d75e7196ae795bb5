// SPDX-License-Identifier: BSD-3-Clause
// Safetensors: an atomic writer and a reader that trusts nothing.
#include "tensor/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/assert.hpp"
#include "kernels/half.hpp"
#include "tensor/weights_names.hpp"
#include "tensor/whole_file.hpp"

namespace troupe {

namespace json = boost::json;

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian; a big-endian machine needs byte swaps");

constexpr std::uint64_t largest_header = 100'000'000;
constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);

std::uint64_t slot_bytes(const parameter_slot& slot) {
  return static_cast<std::uint64_t>(slot.elements()) * sizeof(float);
}

error io_error(const std::string& path, std::string_view doing, int code) {
  return {errc::io, fmt::format("{}: cannot {}: {}", path, doing, std::strerror(code))};
}

constexpr std::string_view type_names[]{"F32", "F16", "BF16"};

std::uint64_t width_of(stored_type type) {
  return type == stored_type::f32 ? 4 : 2;
}

/// Bytes of an element; 0: of no type of the format.
std::uint64_t width_of(std::string_view type) {
  constexpr std::pair<std::string_view, std::uint64_t> widths[]{
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8},  {"I32", 4},     {"I16", 2},    {"I8", 1},
      {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto* found = std::ranges::find(widths, type, &std::pair<std::string_view, std::uint64_t>::first);
  return found == std::end(widths) ? 0 : found->second;
}

// -- numbers of half the width

float widened(std::uint16_t bits, stored_type type) {
  return type == stored_type::bf16 ? kernels::from_bfloat(bits) : kernels::from_half(bits);
}

/// To the nearest, and of two of them to the even one.
std::uint16_t narrowed(float value, stored_type type) {
  if (type == stored_type::f16)
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) // not a number: rounding must not make an infinity of it
    return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// -- writing

std::string header_text(const std::vector<tensor_to_save>& tensors, const std::map<std::string, std::string>& metadata) {
  json::object header;
  if (!metadata.empty()) {
    json::object entries;
    for (const auto& [key, text] : metadata)
      entries[key] = text;
    header["__metadata__"] = std::move(entries);
  }
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const auto end = offset + static_cast<std::uint64_t>(tensor.dims.elements()) * width_of(tensor.type);
    header[tensor.name] = {{"dtype", type_names[static_cast<std::size_t>(tensor.type)]},
                           {"shape", json::array(tensor.dims.extents().begin(), tensor.dims.extents().end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = json::serialize(header);
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  return text;
}

/// 0 or errno.
int write_tensor(const open_file& out, const tensor_to_save& tensor) {
  const auto count = static_cast<std::size_t>(tensor.dims.elements());
  if (tensor.type == stored_type::f32 && !tensor.transposed)
    return out.write_all(tensor.data, count * sizeof(float));
  const auto rows = tensor.transposed ? static_cast<std::size_t>(tensor.dims[0]) : count, columns = rows == 0 ? 0 : count / rows;
  std::vector<std::byte> bytes(count * width_of(tensor.type));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = tensor.data[tensor.transposed ? i % columns * rows + i / columns : i];
    if (tensor.type == stored_type::f32) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    } else {
      const std::uint16_t half = narrowed(value, tensor.type);
      std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
    }
  }
  return out.write_all(bytes.data(), bytes.size());
}

int write_contents(const open_file& out, const std::vector<tensor_to_save>& tensors, const std::string& header) {
  const std::uint64_t length = header.size();
  if (int code = out.write_all(&length, sizeof length))
    return code;
  if (int code = out.write_all(header.data(), header.size()))
    return code;
  for (const auto& tensor : tensors)
    if (int code = write_tensor(out, tensor))
      return code;
  return 0;
}

// -- reading

std::optional<std::uint64_t> as_count(const json::value& v) {
  if (v.is_uint64())
    return v.get_uint64();
  if (v.is_int64() && v.get_int64() >= 0)
    return static_cast<std::uint64_t>(v.get_int64());
  return std::nullopt;
}

/// The entry under `name`, or nothing where it is not {"dtype": a type, "shape": [counts], "data_offsets": [begin, end]}.
std::optional<stored_tensor> read_entry(std::string_view name, const json::value& v) {
  const auto* fields = v.if_object();
  const auto* type = fields ? fields->if_contains("dtype") : nullptr;
  const auto* dims = fields ? fields->if_contains("shape") : nullptr;
  const auto* offsets = fields ? fields->if_contains("data_offsets") : nullptr;
  if (!type || !dims || !offsets || !type->is_string() || !dims->is_array() || !offsets->is_array()
      || offsets->get_array().size() != 2)
    return std::nullopt;
  std::vector<std::int64_t> extents;
  for (const auto& extent : dims->get_array()) {
    auto count = as_count(extent);
    if (!count || *count > static_cast<std::uint64_t>(INT64_MAX))
      return std::nullopt;
    extents.push_back(static_cast<std::int64_t>(*count));
  }
  auto begin = as_count(offsets->get_array()[0]), end = as_count(offsets->get_array()[1]);
  const std::string_view of_type{type->get_string().data(), type->get_string().size()};
  if (!begin || !end || *begin > *end || width_of(of_type) == 0)
    return std::nullopt;
  return stored_tensor{std::string{name}, std::string{of_type}, shape{std::move(extents)}, *begin, *end};
}

/// What its shape and type say; none: more than can be counted.
std::optional<std::uint64_t> bytes_by_shape(const stored_tensor& tensor) {
  auto bytes = width_of(tensor.type);
  const auto& extents = tensor.dims.extents();
  if (std::ranges::count(extents, 0) > 0)
    return 0;
  for (const auto extent : extents)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return std::nullopt;
  return bytes;
}

error refusal(const std::string& path, const std::string& message) {
  return {errc::bad_weights, fmt::format("{}: {}", path, message)};
}

/// One file: its header, then its tensors one by one.
class single_file {
public:
  explicit single_file(std::string path) : path_(std::move(path)), in_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {}

  result<void> read_header() {
    struct stat about {};
    if (!in_.is_open() || ::fstat(in_.get(), &about) != 0)
      return error{errc::io, fmt::format("{}: cannot open it: {}; `run --save` writes such files", path_, std::strerror(errno))};
    if (!S_ISREG(about.st_mode))
      return io_error(path_, "read it as a file", EISDIR);
    return read_header(static_cast<std::uint64_t>(about.st_size));
  }

  result<void> read(const stored_tensor& which, float* to) const {
    const auto* const type = std::ranges::find(type_names, which.type);
    if (type == std::end(type_names))
      return refusal(path_,
                     fmt::format("tensor \"{}\" is {}, and parameters are read from F32, F16 and BF16", which.name, which.type));
    const auto how = static_cast<stored_type>(type - std::begin(type_names));
    std::vector<std::uint16_t> halves(how == stored_type::f32 ? 0 : which.bytes() / sizeof(std::uint16_t));
    if (!in_.read_at(how == stored_type::f32 ? static_cast<void*>(to) : halves.data(), which.bytes(), data_begin_ + which.begin))
      return refusal(path_, fmt::format("tensor \"{}\" cannot be read", which.name));
    std::ranges::transform(halves, to, [how](std::uint16_t bits) { return widened(bits, how); });
    return {};
  }

  const std::string& path() const { return path_; }
  std::vector<stored_tensor> tensors;
  std::map<std::string, std::string> metadata;

private:
  error refuse(const std::string& message) const { return refusal(path_, message); }

  result<void> read_header(std::uint64_t file_bytes) {
    std::uint64_t length = 0;
    if (file_bytes < length_bytes || !in_.read_at(&length, sizeof length, 0))
      return refuse(fmt::format("{} bytes are too few for a safetensors file", file_bytes));
    if (length > largest_header)
      return refuse(fmt::format("claims a header of {} bytes, more than {}: not a safetensors file", length, largest_header));
    if (length > file_bytes - length_bytes)
      return refuse(
          fmt::format("claims a header of {} bytes but has {} in all: truncated, or not a safetensors file", length, file_bytes));
    std::string text(length, '\0');
    if (!in_.read_at(text.data(), text.size(), length_bytes))
      return refuse("the header cannot be read");
    boost::system::error_code broken;
    auto header = json::parse(text, broken);
    if (broken || !header.is_object())
      return refuse(fmt::format("the header is not a JSON object ({})", broken ? broken.message() : "another JSON value"));
    data_begin_ = length_bytes + length;
    for (const auto& [name, v] : header.get_object()) {
      if (name == "__metadata__") {
        keep_metadata(v);
        continue;
      }
      auto read = read_entry({name.data(), name.size()}, v);
      if (!read)
        return refuse(fmt::format("tensor \"{}\" has no type, shape and two offsets as the format wants them",
                                  std::string_view{name.data(), name.size()}));
      tensors.push_back(std::move(*read));
    }
    return check_places(file_bytes - data_begin_);
  }

  void keep_metadata(const json::value& v) {
    if (const auto* entries = v.if_object())
      for (const auto& [key, text] : *entries)
        if (text.is_string())
          metadata.emplace(std::string{key.data(), key.size()}, std::string{text.get_string().data(), text.get_string().size()});
  }

  /// Packed without holes.
  result<void> check_places(std::uint64_t data_bytes) {
    std::ranges::sort(tensors, {}, [](const stored_tensor& each) { return std::pair{each.begin, each.end}; });
    std::uint64_t expected = 0;
    for (const auto& each : tensors) {
      const auto bytes = bytes_by_shape(each);
      if (!bytes || *bytes > UINT64_MAX - expected)
        return refuse(fmt::format("tensor \"{}\" is {}, too large for any file", each.name, each.dims.to_string()));
      if (each.begin != expected || each.bytes() != *bytes)
        return refuse(fmt::format("tensor \"{}\" has offsets [{}, {}), expected [{}, {})", each.name, each.begin, each.end,
                                  expected, expected + *bytes));
      expected = each.end;
    }
    if (expected != data_bytes)
      return refuse(fmt::format("has {} bytes of data, its header says {}: {}", data_bytes, expected,
                                data_bytes < expected ? "truncated" : "too long"));
    return {};
  }

  std::string path_;
  open_file in_;
  std::uint64_t data_begin_ = 0;
};

} // namespace

// -- files

struct safetensors_file::opened {
  std::string path; ///< as it was asked for
  std::vector<std::unique_ptr<single_file>> files;
  std::vector<stored_tensor> tensors;

  result<void> add(const std::string& name) {
    files.push_back(std::make_unique<single_file>(name));
    return files.back()->read_header();
  }
  result<void> add_all_of(const json::object& weight_map);
};

namespace {

/// Of an index. Its end decides, for `.safetensors` files have no other sign at their beginning.
bool is_index(const std::string& path) {
  return path.ends_with(".json");
}

result<json::object> read_weight_map(const std::string& path) {
  const open_file in{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat about {};
  if (!in.is_open() || ::fstat(in.get(), &about) != 0)
    return io_error(path, "open it", errno);
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (!S_ISREG(about.st_mode) || bytes > largest_header)
    return refusal(path, "is no index of safetensors files");
  std::string text(bytes, '\0');
  boost::system::error_code broken;
  const auto whole = in.read_at(text.data(), text.size(), 0) ? json::parse(text, broken) : json::value{};
  const auto* fields = broken ? nullptr : whole.if_object();
  const auto* map = fields != nullptr ? fields->if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object())
    return refusal(path, "is no index of safetensors files: a JSON object with a \"weight_map\" from tensors to files");
  return map->get_object();
}

} // namespace

/// A file is named as one of the index's own folder; it is opened once.
result<void> safetensors_file::opened::add_all_of(const json::object& weight_map) {
  const auto folder = path.substr(0, path.rfind('/') + 1); // empty where there is no '/': npos + 1 is 0
  std::map<std::string, std::size_t, std::less<>> known;
  for (const auto& [name, of] : weight_map) {
    const std::string tensor{name.data(), name.size()};
    const auto* text = of.if_string();
    if (text == nullptr || text->empty() || text->find('/') != json::string::npos || text->find('\0') != json::string::npos)
      return refusal(path, fmt::format("tensor \"{}\" is in no file of the index's folder", tensor));
    const std::string base{text->data(), text->size()};
    const auto [at, is_new] = known.try_emplace(base, files.size());
    if (is_new)
      if (auto read = add(folder + base); !read)
        return read;
    const auto& in = files[at->second]->tensors;
    const auto found = std::ranges::find(in, tensor, &stored_tensor::name);
    if (found == in.end())
      return refusal(path, fmt::format("tensor \"{}\" is not in {}", tensor, base));
    tensors.push_back(*found);
    tensors.back().file = at->second;
  }
  std::ranges::sort(tensors, {}, [](const stored_tensor& each) { return std::pair{each.file, each.begin}; });
  return {};
}

result<safetensors_file> safetensors_file::open(const std::string& path) {
  auto all = std::make_shared<opened>();
  all->path = path;
  if (is_index(path)) {
    auto map = read_weight_map(path);
    if (!map)
      return map.error();
    if (auto read = all->add_all_of(*map); !read)
      return read.error();
    return safetensors_file{std::move(all)};
  }
  if (auto read = all->add(path); !read)
    return read.error();
  all->tensors = all->files.front()->tensors;
  return safetensors_file{std::move(all)};
}

const std::vector<stored_tensor>& safetensors_file::tensors() const {
  return all_->tensors;
}

const std::map<std::string, std::string>& safetensors_file::metadata() const {
  static const std::map<std::string, std::string> none;
  return all_->files.empty() ? none : all_->files.front()->metadata;
}

result<void> safetensors_file::read(const stored_tensor& which, float* to) const {
  return all_->files[which.file]->read(which, to);
}

error safetensors_file::refuse(std::string message) const {
  return refusal(all_->path, message);
}

result<void> save_safetensors(const std::string& path, const std::vector<tensor_to_save>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const auto failed = write_whole_file(path, [&](const open_file& out) { return write_contents(out, tensors, header); });
  if (failed.is_irregular)
    return error{errc::io, fmt::format("{}: cannot save the weights: it is not a regular file", path)};
  if (failed.code != 0)
    return io_error(path, failed.began ? "save the weights" : "create a file beside it", failed.code);
  return {};
}

std::vector<tensor_to_save> tensors_of(const parameter_layout& layout, const float* flat) {
  std::vector<tensor_to_save> tensors;
  for (const auto& slot : layout.slots)
    tensors.push_back({slot.name, slot.dims, flat + slot.offset});
  return tensors;
}

result<void> save_safetensors(const std::string& path, const parameter_layout& layout, const float* flat,
                              const std::map<std::string, std::string>& metadata) {
  return save_safetensors(path, tensors_of(layout, flat), metadata);
}

result<void> load_safetensors(const std::string& path, const parameter_layout& layout, float* flat) {
  const auto from = safetensors_file::open(path);
  if (!from)
    return from.error();
  const auto matched = match_slots(*from, layout);
  if (!matched)
    return matched.error();
  std::fill_n(flat, layout.floats(), 0.0F);
  for (std::size_t i = 0; i < layout.slots.size(); ++i)
    if (auto read = read_tensor(*from, (*matched)[i], flat + layout.slots[i].offset); !read)
      return read;
  return {};
}

result<std::map<std::string, std::string>> read_safetensors_metadata(const std::string& path) {
  const auto from = safetensors_file::open(path);
  if (!from)
    return from.error();
  return from->metadata();
}

std::string weights_digest(const parameter_layout& layout, const float* flat) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  unsigned char hash[EVP_MAX_MD_SIZE];
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const auto& slot : layout.slots)
    ok = ok && EVP_DigestUpdate(context.get(), flat + slot.offset, slot_bytes(slot)) == 1;
  ok = ok && EVP_DigestFinal_ex(context.get(), hash, nullptr) == 1;
  TROUPE_ASSERT(ok);
  constexpr int digest_bytes = 16;
  std::string text;
  for (int i = 0; i < digest_bytes; ++i)
    text += fmt::format("{:02x}", hash[i]);
  return text;
}

} // namespace troupe
