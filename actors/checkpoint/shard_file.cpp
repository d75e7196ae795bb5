// SPDX-License-Identifier: BSD-3-Clause
// A shard's file: written from memory without a copy, read where it is mapped.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/crc32c.hpp"
#include "actors/checkpoint/durable_file.hpp"
#include "actors/checkpoint/shard_format.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors {
namespace {

static_assert(std::endian::native == std::endian::little);

namespace wire = protocols::wire;

constexpr std::array<std::byte, page_bytes> zero_page{};

/// A file's body, one block after the other, and the checksums of its pieces.
class body_writer {
public:
  explicit body_writer(durable_file& to) : to_(to) {}

  std::uint64_t offset() const { return offset_; }

  void add(std::span<const std::byte> bytes) {
    to_.write(bytes, offset_);
    offset_ += bytes.size();
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), crc_piece_bytes - in_piece_));
      crc_ = crc32c(part, crc_);
      in_piece_ += part.size();
      bytes = bytes.subspan(part.size());
      if (in_piece_ == crc_piece_bytes)
        end_piece();
    }
  }

  void fill_page() { add(std::span(zero_page).first(next_page(offset_) - offset_)); }

  std::vector<std::uint32_t> take_pieces() {
    if (in_piece_ > 0)
      end_piece();
    return std::move(pieces_);
  }

private:
  void end_piece() {
    pieces_.push_back(crc_);
    crc_ = 0;
    in_piece_ = 0;
  }

  durable_file& to_;
  std::uint64_t offset_ = page_bytes, in_piece_ = 0;
  std::uint32_t crc_ = 0;
  std::vector<std::uint32_t> pieces_;
};

std::span<const std::byte> bytes_before_crc(const shard_file_head& head) {
  return std::as_bytes(std::span(&head, 1)).first(offsetof(shard_file_head, crc));
}

} // namespace

void throw_newer(const std::string& path, std::uint32_t format) {
  throw std::runtime_error(
      fmt::format("{}: is of format {}, and this program reads {}; use the program that wrote it, or a newer one", path, format,
                  wire::checkpoint_format));
}

// The file has its name while it is written: without a manifest that names it with size and checksum it is nothing, so a second
// name would prove no more.
static written_file write_state_file(const std::string& folder, const std::string& name, const shard_head& head,
                                     std::span<const named_block> blocks) {
  make_folder(folder);
  const std::string path = folder + "/" + name;
  durable_file file(path);
  body_writer body(file);
  wire::shard_footer footer{.shard = head.shard,
                            .ver = head.ver,
                            .where = {head.range.begin, head.range.end},
                            .numbers = head.numbers,
                            .blocks = {},
                            .pieces = {}};
  for (const named_block& each : blocks) {
    TROUPE_ASSERT(std::cmp_equal(each.values.size(), head.range.size()));
    footer.blocks.push_back({each.name, body.offset(), each.values.size()});
    body.add(std::as_bytes(each.values));
    body.fill_page();
  }
  footer.pieces = body.take_pieces();
  const auto words = wire::encode(footer);
  const auto bytes = std::as_bytes(std::span(words));
  shard_file_head first{.footer_crc = crc32c(bytes), .footer_offset = body.offset(), .footer_bytes = bytes.size()};
  first.crc = crc32c(bytes_before_crc(first));
  file.write(bytes, body.offset());
  file.write(zero_page, 0);
  file.write(std::as_bytes(std::span(&first, 1)), 0);
  file.sync();
  file.keep_as(path);
  return {name, body.offset() + bytes.size(), first.footer_crc};
}

written_file write_shard_file(const std::string& folder, const shard_head& head, std::span<const named_block> blocks) {
  return write_state_file(folder, fmt::format("shard-{}.ckpt", head.shard), head, blocks);
}

written_file write_worker_file(const std::string& folder, std::uint32_t life, const shard_head& head,
                               std::span<const named_block> blocks) {
  return write_state_file(folder, fmt::format("worker-{}-{}.ckpt", head.shard, life), head, blocks);
}

struct shard_file::mapped {
  mapped(std::string at, const written_file& expected) : path(std::move(at)) {
    map(expected);
    try {
      open(expected);
    } catch (...) {
      ::munmap(memory, bytes);
      throw;
    }
  }
  ~mapped() { ::munmap(memory, bytes); }

  [[noreturn]] void refuse(const std::string& why) const { throw std::runtime_error(fmt::format("{}: {}", path, why)); }

  void map(const written_file& expected) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
      throw_io(path, "open it", errno);
    struct stat about {};
    int code = ::fstat(descriptor, &about) == 0 ? 0 : errno;
    if (code == 0 && S_ISREG(about.st_mode))
      bytes = static_cast<std::uint64_t>(about.st_size);
    if (code == 0 && bytes > 0 && bytes == expected.bytes) {
      memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
      code = memory != MAP_FAILED ? 0 : errno;
    }
    ::close(descriptor);
    if (code != 0)
      throw_io(path, "read it", code);
    if (bytes != expected.bytes || bytes == 0)
      refuse(fmt::format("has {} bytes and should have {}: {}", bytes, expected.bytes,
                         bytes < expected.bytes ? "it was cut short" : "it is not the file that the manifest names"));
  }

  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size) const {
    return {static_cast<const std::byte*>(memory) + offset, size};
  }

  /// Head and footer; all that later reads rely on.
  void open(const written_file& expected) {
    shard_file_head first;
    if (bytes < page_bytes)
      refuse(fmt::format("{} bytes are too few for a shard's file", bytes));
    std::memcpy(&first, part(0, sizeof first).data(), sizeof first);
    if (first.magic != shard_file_head{}.magic)
      refuse(std::ranges::count(first.magic, '\0') == std::ssize(first.magic) ? "is torn: its head was never written"
                                                                              : "does not begin as a shard's file does");
    if (first.crc != crc32c(bytes_before_crc(first)))
      refuse("its head, bytes 0 to 64, is damaged");
    if (first.format > wire::checkpoint_format)
      throw_newer(path, first.format);
    if (!std::ranges::equal(part(sizeof first, page_bytes - sizeof first), std::span(zero_page).subspan(sizeof first)))
      refuse(fmt::format("is damaged between bytes {} and {}, which should be zeros", sizeof first, page_bytes));
    body_end = first.footer_offset;
    if (body_end < page_bytes || body_end % page_bytes != 0 || body_end > bytes || first.footer_bytes != bytes - body_end
        || first.footer_bytes % sizeof(std::uint64_t) != 0)
      refuse("its head names a footer that is not at the end of the file");
    const auto end = part(body_end, first.footer_bytes);
    if (const std::uint32_t crc = crc32c(end); crc != first.footer_crc)
      refuse(fmt::format("its footer is damaged: the CRC32C of bytes {} to {} is {:08x}, not {:08x}", body_end, bytes, crc,
                         first.footer_crc));
    if (first.footer_crc != expected.crc)
      refuse(fmt::format("is not the file that the manifest names: its footer's CRC32C is {:08x}, not {:08x}", first.footer_crc,
                         expected.crc));
    read_footer({reinterpret_cast<const std::uint64_t*>(end.data()), end.size() / sizeof(std::uint64_t)});
  }

  void read_footer(std::span<const std::uint64_t> words) {
    auto read = wire::decode_footer(words);
    if (!read)
      refuse(read.error().text);
    footer = std::move(*read);
    head = {footer.shard, footer.ver, {footer.where.begin, footer.where.end}, footer.numbers};
    if (head.range.begin < 0 || head.range.end < head.range.begin)
      refuse(fmt::format("its range, {} to {}, is none", head.range.begin, head.range.end));
    const std::uint64_t body_bytes = body_end - page_bytes;
    if (footer.pieces.size() != (body_bytes + crc_piece_bytes - 1) / crc_piece_bytes)
      refuse(fmt::format("has checksums of {} pieces beside {} bytes", footer.pieces.size(), body_bytes));
    for (const wire::footer_block& each : footer.blocks)
      if (each.offset < page_bytes || each.offset % page_bytes != 0 || each.offset > body_end
          || each.floats > (body_end - each.offset) / sizeof(float) || std::cmp_not_equal(each.floats, head.range.size()))
        refuse(fmt::format("its block \"{}\" of {} floats at byte {} does not fit", each.name, each.floats, each.offset));
    checked = std::vector<std::atomic<std::uint8_t>>(footer.pieces.size());
  }

  const wire::footer_block* find(const std::string& block) const {
    const auto found = std::ranges::find(footer.blocks, block, &wire::footer_block::name);
    return found == footer.blocks.end() ? nullptr : &*found;
  }

  /// Each piece once; a second thread that needs it at the same time waits.
  void check(std::size_t piece) const {
    enum : std::uint8_t { unknown, busy, good };
    auto& state = checked[piece];
    for (std::uint8_t seen = state.load(); seen != good; seen = state.load()) {
      if (seen == busy) {
        state.wait(busy);
      } else if (state.compare_exchange_strong(seen, busy)) {
        const std::uint64_t begin = page_bytes + piece * crc_piece_bytes, end = std::min(body_end, begin + crc_piece_bytes);
        const std::uint32_t crc = crc32c(part(begin, end - begin));
        state.store(crc == footer.pieces[piece] ? good : unknown);
        state.notify_all();
        if (crc != footer.pieces[piece])
          refuse(fmt::format("{} damaged: the CRC32C of bytes {} to {} is {:08x}, not {:08x}", names_within(begin, end), begin,
                             end, crc, footer.pieces[piece]));
      }
    }
  }

  std::string names_within(std::uint64_t begin, std::uint64_t end) const {
    std::vector<std::string> names;
    for (const wire::footer_block& each : footer.blocks)
      if (each.offset < end && begin < next_page(each.offset + each.floats * sizeof(float)))
        names.push_back(fmt::format("\"{}\"", each.name));
    return fmt::format("block{} {} {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
  }

  void check_bytes(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t at = (begin - page_bytes) / crc_piece_bytes; begin < end && page_bytes + at * crc_piece_bytes < end; ++at)
      check(at);
  }

  std::string path;
  void* memory = nullptr;
  std::uint64_t bytes = 0, body_end = 0;
  shard_head head;
  wire::shard_footer footer;
  mutable std::vector<std::atomic<std::uint8_t>> checked;
};

shard_file::shard_file(const std::string& folder, const written_file& expected)
    : mapped_(std::make_unique<mapped>(folder + "/" + expected.name, expected)) {}
shard_file::~shard_file() = default;

const shard_head& shard_file::head() const {
  return mapped_->head;
}

std::vector<std::string> shard_file::blocks() const {
  std::vector<std::string> names;
  for (const auto& each : mapped_->footer.blocks)
    names.push_back(each.name);
  return names;
}

bool shard_file::has(const std::string& block) const {
  return mapped_->find(block) != nullptr;
}

std::uint64_t shard_file::number(const std::string& name) const {
  const auto found = head().numbers.find(name);
  return found == head().numbers.end() ? 0 : found->second;
}

void shard_file::read(const std::string& block, flat_range part, float* to) const {
  const wire::footer_block* found = mapped_->find(block);
  if (found == nullptr)
    mapped_->refuse(fmt::format("has no block \"{}\"", block));
  const flat_range& all = mapped_->head.range;
  TROUPE_ASSERT(all.begin <= part.begin && part.begin <= part.end && part.end <= all.end);
  const std::uint64_t begin = found->offset + static_cast<std::uint64_t>(part.begin - all.begin) * sizeof(float),
                      bytes = static_cast<std::uint64_t>(part.size()) * sizeof(float);
  if (bytes == 0)
    return;
  mapped_->check_bytes(begin, begin + bytes);
  std::memcpy(to, mapped_->part(begin, bytes).data(), bytes);
}

void shard_file::verify() const {
  mapped_->check_bytes(page_bytes, mapped_->body_end);
}

} // namespace troupe::actors
