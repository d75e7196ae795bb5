// SPDX-License-Identifier: BSD-3-Clause
// What stands in a checkpoint's files beside the tensors, as bytes and back. checkpoint.capnp says what the fields mean.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "protocols/ids.hpp"
#include "protocols/wire/codec.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::protocols::wire {

/// The newest format of each file that this program writes and reads.
inline constexpr std::uint32_t checkpoint_format = 1;

struct footer_block {
  std::string name{};
  std::uint64_t offset = 0, floats = 0;
  friend bool operator==(const footer_block&, const footer_block&) = default;
};
struct shard_footer {
  std::uint32_t shard = 0;
  version ver{};
  range where{};
  std::map<std::string, std::uint64_t> numbers{};
  std::vector<footer_block> blocks{};
  std::vector<std::uint32_t> pieces{};
  friend bool operator==(const shard_footer&, const shard_footer&) = default;
};

struct manifest_file {
  std::string name{};
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  friend bool operator==(const manifest_file&, const manifest_file&) = default;
};
struct manifest_tensor {
  std::string name{};
  std::vector<std::int64_t> dims{};
  std::int64_t offset = 0;
  friend bool operator==(const manifest_tensor&, const manifest_tensor&) = default;
};
struct manifest {
  std::string job{};
  std::map<std::string, std::string> facts{};
  version ver{};
  std::uint64_t samples = 0;
  nanoseconds training = 0;
  std::uint64_t floats = 0;
  std::vector<std::uint64_t> lead{}, coordinator{};
  std::vector<manifest_file> files{};
  std::vector<manifest_tensor> tensors{};
  std::map<std::string, std::string> data{};
  friend bool operator==(const manifest&, const manifest&) = default;
};

std::vector<std::uint64_t> encode(const shard_footer& footer);
std::vector<std::uint64_t> encode(const manifest& checkpoint);

/// Fail where the bytes are cut short or damaged, or where a number does not fit; they allocate no more than a few times the
/// bytes given, and do not throw, except bad_alloc. Values are as they came: that they fit the file is for its reader to judge.
result<shard_footer> decode_footer(std::span<const std::uint64_t> words);
result<manifest> decode_manifest(std::span<const std::uint64_t> words);

} // namespace troupe::protocols::wire
