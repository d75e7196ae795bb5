// SPDX-License-Identifier: BSD-3-Clause
// Frames, segments, and what a crash leaves of them.
#include "actors/journal/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/checkpoint/crc32c.hpp"
#include "actors/checkpoint/durable_file.hpp"
#include "protocols/wire/raft.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
namespace raft = protocols::raft;

constexpr char magic[] = {'T', 'R', 'O', 'U', 'P', 'E', 'J', 'L'};
constexpr std::size_t head_bytes = 16, frame_head_bytes = 8, word_bytes = 8;
constexpr std::string_view prefix = "journal-", unfinished = "journal.new";

using bytes = std::vector<std::byte>;

template <class Number>
Number number_at(std::span<const std::byte> from, std::size_t at) {
  Number out{};
  std::memcpy(&out, from.data() + at, sizeof out);
  return out;
}
template <class Number>
void put_number(bytes& to, std::size_t at, Number number) {
  std::memcpy(to.data() + at, &number, sizeof number);
}

bytes segment_head() {
  bytes out(head_bytes);
  std::memcpy(out.data(), magic, sizeof magic);
  put_number(out, 8, journal_format);
  put_number(out, 12, crc32c(std::span(out).first(12)));
  return out;
}

std::uint32_t checksum_of_frame(std::span<const std::byte> length, std::span<const std::byte> body) {
  return crc32c(body, crc32c(length));
}

bytes frame_of(const raft::persist& persisted) {
  const auto words = protocols::wire::encode(persisted);
  const auto body = std::as_bytes(std::span(words));
  bytes out(frame_head_bytes);
  put_number(out, 0, static_cast<std::uint32_t>(body.size()));
  put_number(out, 4, checksum_of_frame(std::span(out).first(4), body));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

/// The body of the frame that begins there; nothing if none does.
std::optional<std::span<const std::byte>> body_at(std::span<const std::byte> file, std::size_t at) {
  if (file.size() - at < frame_head_bytes)
    return {};
  const auto length = number_at<std::uint32_t>(file, at);
  if (length == 0 || length % word_bytes != 0 || length > file.size() - at - frame_head_bytes)
    return {};
  const auto body = file.subspan(at + frame_head_bytes, length);
  if (number_at<std::uint32_t>(file, at + 4) != checksum_of_frame(file.subspan(at, 4), body))
    return {};
  return body;
}

/// Where the next good frame begins. They are multiples of a word long, and so begin at such places.
std::optional<std::size_t> good_frame_after(std::span<const std::byte> file, std::size_t at) {
  for (at += word_bytes; at < file.size(); at += word_bytes)
    if (body_at(file, at))
      return at;
  return {};
}

[[noreturn]] void throw_damage(const std::string& path, std::size_t offset, const std::string& fault) {
  throw std::runtime_error(fmt::format(
      "{}: damaged at byte {}: {}; put back a copy, or remove the folder and let this member begin anew", path, offset, fault));
}

/// N of "journal-N".
std::optional<std::uint64_t> number_of(const std::string& name) {
  std::uint64_t number = 0;
  if (!name.starts_with(prefix))
    return {};
  const char* const end = name.data() + name.size();
  const auto [read, wrong] = std::from_chars(name.data() + prefix.size(), end, number);
  return wrong == std::errc{} && read == end ? std::optional(number) : std::nullopt;
}

bytes read_segment(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in && !in.eof())
    throw_io(path, "read it", errno);
  const auto whole = std::as_bytes(std::span(text));
  return {whole.begin(), whole.end()};
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw_io(path, "remove it", errno);
}

} // namespace

journal::journal(const std::string& folder) : folder_(folder) {
  make_folder(folder_);
  std::set<std::uint64_t> numbers;
  for (const auto& each : fs::directory_iterator(folder_))
    if (const auto number = number_of(each.path().filename().string()))
      numbers.insert(*number);
  if (numbers.empty()) {
    begin_segment(1, {});
  } else {
    recover(*numbers.rbegin());
    numbers.erase(number_);
  }
  remove_file(folder_ + '/' + std::string(unfinished));
  for (const std::uint64_t old : numbers)
    remove_file(fmt::format("{}/{}{}", folder_, prefix, old));
}

journal::~journal() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void journal::recover(std::uint64_t number) {
  number_ = number;
  path_ = fmt::format("{}/{}{}", folder_, prefix, number);
  const bytes file = read_segment(path_);
  if (file.size() < head_bytes || !std::equal(std::begin(magic), std::end(magic), reinterpret_cast<const char*>(file.data()))
      || number_at<std::uint32_t>(file, 12) != crc32c(std::span(file).first(12)))
    throw_damage(path_, 0, "this is no head of a journal");
  if (const auto format = number_at<std::uint32_t>(file, 8); format > journal_format)
    throw std::runtime_error(fmt::format("{}: of format {}, and this program reads up to {}", path_, format, journal_format));
  std::size_t at = head_bytes;
  while (at < file.size()) {
    const auto body = body_at(file, at);
    if (!body) {
      if (at == head_bytes)
        throw_damage(path_, at, "its first frame is not whole, which no crash leaves so");
      if (const auto good = good_frame_after(file, at))
        throw_damage(path_, at, fmt::format("a bad frame, and a good one follows at byte {}", *good));
      break;
    }
    std::vector<std::uint64_t> words(body->size() / word_bytes);
    std::memcpy(words.data(), body->data(), body->size());
    const auto persisted = protocols::wire::decode_persist(words);
    if (!persisted)
      throw_damage(path_, at, persisted.error().text);
    raft::keep(contents_, *persisted);
    if (!raft::sound(contents_))
      throw_damage(path_, at, "its entries do not follow those before them");
    at += frame_head_bytes + body->size();
  }
  if (at == head_bytes)
    throw_damage(path_, at, "it has no frame");
  end_ = at;
  torn_bytes_ = file.size() - at;
  open_to_write();
  if (torn_bytes_ == 0)
    return;
  if (::ftruncate(descriptor_, static_cast<off_t>(end_)) != 0)
    throw_io(path_, "cut off what a crash has left of the last frame", errno);
  if (::fsync(descriptor_) != 0)
    throw_io(path_, "write it to the disk", errno);
}

void journal::open_to_write() {
  if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1));
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw_io(path_, "open it", errno);
}

/// Under another name until it is on the disk: whatever has the name of a segment was whole once.
void journal::begin_segment(std::uint64_t number, const raft::persist& first) {
  const bytes head = segment_head(), frame = frame_of(first);
  const std::string path = fmt::format("{}/{}{}", folder_, prefix, number);
  durable_file file(folder_ + '/' + std::string(unfinished));
  file.write(head, 0);
  file.write(frame, head.size());
  file.sync();
  file.keep_as(path);
  number_ = number;
  path_ = path;
  end_ = head.size() + frame.size();
  open_to_write();
}

void journal::append(std::span<const std::byte> frame) {
  for (std::size_t done = 0; done < frame.size();) {
    const ssize_t count = ::pwrite(descriptor_, frame.data() + done, frame.size() - done, static_cast<off_t>(end_ + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      throw_io(path_, "write it", count < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(count);
  }
  if (::fdatasync(descriptor_) != 0) // the file's length goes with it
    throw_io(path_, "write it to the disk", errno);
  end_ += frame.size();
}

void journal::write(const raft::persist& persisted) {
  if (std::exchange(failed_, true)) // until it is done
    throw std::runtime_error(fmt::format("{}: a write has failed before, and nothing is written after it", path_));
  if (persisted.snapshot) {
    const std::string old = path_;
    begin_segment(number_ + 1, persisted);
    remove_file(old);
  } else {
    append(frame_of(persisted));
  }
  raft::keep(contents_, persisted);
  failed_ = false;
}

} // namespace troupe::actors
