// SPDX-License-Identifier: BSD-3-Clause
// Safetensors: an atomic writer and a reader that trusts nothing.
#include "tensor/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include <boost/json.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/assert.hpp"

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

/// A file descriptor that closes itself.
class file {
public:
  explicit file(int descriptor) : descriptor_(descriptor) {}
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  /// 0 or errno: a full disk may show only here.
  int close() { return descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) != 0 ? errno : 0; }

  /// 0 or errno.
  int write_all(const void* data, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      auto written = ::write(descriptor_, at, bytes);
      if (written < 0 && errno != EINTR)
        return errno;
      const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
      at += done;
      bytes -= done;
    }
    return 0;
  }

  /// Whether all of [offset, offset + bytes) was there.
  bool read_at(void* data, std::size_t bytes, std::uint64_t offset) const {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      auto got = ::pread(descriptor_, at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      const auto done = static_cast<std::size_t>(got);
      at += done;
      offset += done;
      bytes -= done;
    }
    return true;
  }

private:
  int descriptor_;
};

std::string header_text(const parameter_layout& layout, const std::map<std::string, std::string>& metadata) {
  json::object header;
  if (!metadata.empty()) {
    json::object entries;
    for (const auto& [key, text] : metadata)
      entries[key] = text;
    header["__metadata__"] = std::move(entries);
  }
  std::uint64_t offset = 0;
  for (const auto& slot : layout.slots) {
    header[slot.name] = {{"dtype", "F32"},
                         {"shape", json::array(slot.dims.extents().begin(), slot.dims.extents().end())},
                         {"data_offsets", {offset, offset + slot_bytes(slot)}}};
    offset += slot_bytes(slot);
  }
  auto text = json::serialize(header);
  text.resize((text.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  return text;
}

int write_contents(const file& out, const parameter_layout& layout, const float* flat, const std::string& header) {
  const std::uint64_t length = header.size();
  if (int code = out.write_all(&length, sizeof length))
    return code;
  if (int code = out.write_all(header.data(), header.size()))
    return code;
  for (const auto& slot : layout.slots)
    if (int code = out.write_all(flat + slot.offset, slot_bytes(slot)))
      return code;
  return ::fsync(out.get()) == 0 ? 0 : errno;
}

/// Makes the rename durable. A file system that cannot is no reason to fail a save that is complete.
void sync_folder(const std::string& path) {
  const auto cut = path.rfind('/');
  const auto folder = cut == std::string::npos ? std::string{"."} : path.substr(0, cut + 1);
  file handle{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (handle.is_open())
    ::fsync(handle.get());
}

std::optional<std::uint64_t> as_count(const json::value& v) {
  if (v.is_uint64())
    return v.get_uint64();
  if (v.is_int64() && v.get_int64() >= 0)
    return static_cast<std::uint64_t>(v.get_int64());
  return std::nullopt;
}

/// The entry under `name`, or nothing where it is not {"dtype": text, "shape": [counts], "data_offsets": [begin, end]}.
std::optional<stored_tensor> read_entry(std::string_view name, const json::value& v) {
  const auto* fields = v.if_object();
  const auto* type = fields ? fields->if_contains("dtype") : nullptr;
  const auto* dims = fields ? fields->if_contains("shape") : nullptr;
  const auto* offsets = fields ? fields->if_contains("data_offsets") : nullptr;
  if (!type || !dims || !offsets || !type->is_string() || !dims->is_array() || !offsets->is_array()
      || offsets->get_array().size() != 2)
    return std::nullopt;
  stored_tensor read{std::string{name}, std::string{type->get_string().data(), type->get_string().size()}, {}, 0, 0};
  for (const auto& extent : dims->get_array()) {
    auto count = as_count(extent);
    if (!count || *count > static_cast<std::uint64_t>(INT64_MAX))
      return std::nullopt;
    read.dims.push_back(static_cast<std::int64_t>(*count));
  }
  auto begin = as_count(offsets->get_array()[0]), end = as_count(offsets->get_array()[1]);
  if (!begin || !end || *begin > *end)
    return std::nullopt;
  read.begin = *begin;
  read.end = *end;
  return read;
}

/// One pass over a file: header, entries, then the data straight into place.
class loader {
public:
  explicit loader(const std::string& path) : path_(path), in_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {}

  /// With `floats_alone`, another tensor is refused.
  result<void> read_header(bool floats_alone = true) {
    struct stat about {};
    if (!in_.is_open() || ::fstat(in_.get(), &about) != 0)
      return error{errc::io, fmt::format("{}: cannot open it: {}; `run --save` writes such files", path_, std::strerror(errno))};
    if (!S_ISREG(about.st_mode))
      return io_error(path_, "read it as a file", EISDIR);
    return read_header(static_cast<std::uint64_t>(about.st_size), floats_alone);
  }

  result<void> load(const parameter_layout& layout, float* flat) {
    if (auto ok = match_entries(layout); !ok)
      return ok;
    std::fill_n(flat, layout.floats(), 0.0F);
    for (const auto& e : entries_) {
      const auto& slot = layout.slots[static_cast<std::size_t>(layout.find(e.name))];
      if (!in_.read_at(flat + slot.offset, slot_bytes(slot), data_begin_ + e.begin))
        return refuse(fmt::format("tensor \"{}\" cannot be read", e.name));
    }
    return {};
  }

  result<std::vector<stored_tensor>> take_index() {
    std::ranges::sort(entries_, {}, &stored_tensor::begin);
    for (auto& e : entries_) {
      if (e.end > data_bytes_)
        return refuse(fmt::format("tensor \"{}\" ends at byte {} of {}: truncated", e.name, e.end, data_bytes_));
      e.begin += data_begin_;
      e.end += data_begin_;
    }
    return std::move(entries_);
  }

  std::map<std::string, std::string> take_metadata() { return std::move(metadata_); }

private:
  error refuse(std::string message) const { return {errc::bad_weights, fmt::format("{}: {}", path_, message)}; }

  result<void> read_header(std::uint64_t file_bytes, bool floats_alone) {
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
    data_bytes_ = file_bytes - data_begin_;
    for (const auto& [name, v] : header.get_object()) {
      if (name == "__metadata__") {
        keep_metadata(v);
        continue;
      }
      auto read = read_entry({name.data(), name.size()}, v);
      if (!read || (floats_alone && read->type != "F32"))
        return refuse(fmt::format("tensor \"{}\" is not {} with a shape and two offsets",
                                  std::string_view{name.data(), name.size()}, floats_alone ? "F32" : "of a type"));
      entries_.push_back(std::move(*read));
    }
    return {};
  }

  void keep_metadata(const json::value& v) {
    if (const auto* entries = v.if_object())
      for (const auto& [key, text] : *entries)
        if (text.is_string())
          metadata_.emplace(std::string{key.data(), key.size()}, std::string{text.get_string().data(), text.get_string().size()});
  }

  result<void> match_entries(const parameter_layout& layout) {
    for (const auto& slot : layout.slots)
      if (std::ranges::find(entries_, slot.name, &stored_tensor::name) == entries_.end())
        return refuse(fmt::format("lacks the tensor \"{}\" {} of the model", slot.name, slot.dims.to_string()));
    std::ranges::sort(entries_, {}, &stored_tensor::begin);
    std::uint64_t expected = 0;
    for (const auto& e : entries_) {
      const auto index = layout.find(e.name);
      if (index < 0)
        return refuse(fmt::format("has a tensor \"{}\" that the model does not have", e.name));
      const auto& slot = layout.slots[static_cast<std::size_t>(index)];
      if (e.dims != slot.dims.extents())
        return refuse(
            fmt::format("tensor \"{}\" is {}, the model's is {}", e.name, shape{e.dims}.to_string(), slot.dims.to_string()));
      if (e.begin != expected || e.end - e.begin != slot_bytes(slot))
        return refuse(fmt::format("tensor \"{}\" has offsets [{}, {}), expected [{}, {})", e.name, e.begin, e.end, expected,
                                  expected + slot_bytes(slot)));
      expected = e.end;
    }
    if (expected != data_bytes_)
      return refuse(fmt::format("has {} bytes of data, its header says {}: {}", data_bytes_, expected,
                                data_bytes_ < expected ? "truncated" : "too long"));
    return {};
  }

  const std::string& path_;
  file in_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
  std::vector<stored_tensor> entries_;
};

} // namespace

result<void> save_safetensors(const std::string& path, const parameter_layout& layout, const float* flat,
                              const std::map<std::string, std::string>& metadata) {
  // A rename would replace a device or a folder's link by a plain file.
  if (struct stat about{}; ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return error{errc::io, fmt::format("{}: cannot save the weights: it is not a regular file", path)};
  // mkstemp: a name of our own, so that two savers never share a temporary file.
  auto temporary = path + ".XXXXXX";
  file out{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (!out.is_open())
    return io_error(path, "create a file beside it", errno);
  int code = ::fchmod(out.get(), 0644) == 0 ? 0 : errno;
  if (code == 0)
    code = write_contents(out, layout, flat, header_text(layout, metadata));
  if (int at_close = out.close(); code == 0)
    code = at_close;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    return io_error(path, "save the weights", code);
  }
  sync_folder(path);
  return {};
}

result<void> load_safetensors(const std::string& path, const parameter_layout& layout, float* flat) {
  loader from{path};
  auto header = from.read_header();
  return header ? from.load(layout, flat) : header;
}

result<std::map<std::string, std::string>> read_safetensors_metadata(const std::string& path) {
  loader from{path};
  if (auto header = from.read_header(); !header)
    return header.error();
  return from.take_metadata();
}

result<std::vector<stored_tensor>> read_safetensors_index(const std::string& path) {
  loader from{path};
  if (auto header = from.read_header(false); !header)
    return header.error();
  return from.take_index();
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
