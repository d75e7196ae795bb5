// SPDX-License-Identifier: BSD-3-Clause
// What a node sees around itself.
#include "actors/probe.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "actors/version.hpp"
#include "kernels/backend.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::actors {

namespace {

/// Reads the whole file; a disk is slower than the digest.
file_probe look_at(const std::filesystem::path& path) {
  file_probe seen{.path = path.string()};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    seen.wrong = "is a folder";
    return seen;
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  std::vector<char> block(1U << 20U);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    EVP_DigestUpdate(digest.get(), block.data(), static_cast<std::size_t>(in.gcount()));
    seen.bytes += static_cast<std::uint64_t>(in.gcount());
  }
  if (!in.eof()) {
    seen.wrong = errno == 0 ? "cannot be read" : std::strerror(errno);
    seen.bytes = 0;
    return seen;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  EVP_DigestFinal_ex(digest.get(), bytes.data(), &count);
  seen.sha256 = fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + count, ""));
  return seen;
}

} // namespace

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

node_probe look_around(const probe_query& what) {
  node_probe seen{.version = version, .lane_version = protocols::wire::protocol_version, .pid = static_cast<std::int32_t>(getpid())};
  for (const auto& device : kernels::list_devices(what.accelerators))
    seen.devices.push_back({device.name, device.usable, device.reason, device.memory_bytes, device.free_bytes});
  for (const auto& path : data_files(what.data))
    seen.files.push_back(look_at(path));
  return seen;
}

} // namespace troupe::actors
