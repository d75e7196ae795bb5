// SPDX-License-Identifier: BSD-3-Clause
// Probing a node: devices and data files.
#include "actors/node/probe.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "actors/checkpoint/durable_file.hpp"
#include "actors/version.hpp"
#include "kernels/backend.hpp"
#include "protocols/wire/codec.hpp"
#include "tensor/data/byte_source.hpp"

namespace troupe::actors {

namespace {

/// So much is read of a file beyond max_data_bytes: blocks that are evenly spread.
constexpr std::uint64_t most_of_huge = max_data_bytes / 16;

/// Reads the whole file, unless it is huge; the digest is faster than a disk. The path comes from another host, so the reader
/// must not hang on an endless device or an idle pipe.
file_probe look_at(const std::filesystem::path& path, bool may_be_huge, const std::stop_token& ends) {
  file_probe seen{.path = path.string()};
  const auto refuse = [&seen](std::string why) {
    seen.bytes = 0;
    seen.wrong = std::move(why);
    return seen;
  };
  const auto too_large = fmt::format("has more than {} bytes, the most that is read", max_data_bytes);
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (is_directory(status))
    return refuse("is a folder");
  if (exists(status) && !is_regular_file(status))
    return refuse("is no regular file");
  const auto size = is_regular_file(status) ? std::filesystem::file_size(path, ignored) : 0;
  const bool huge = size > max_data_bytes && !ignored;
  if (huge && !may_be_huge)
    return refuse(too_large);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  std::vector<char> block(1U << 20U);
  const auto skipped = static_cast<std::streamoff>(huge ? size / most_of_huge * block.size() : 0); // after each
  while (in && seen.bytes <= max_data_bytes && !ends.stop_requested()) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    EVP_DigestUpdate(digest.get(), block.data(), static_cast<std::size_t>(in.gcount()));
    seen.bytes += static_cast<std::uint64_t>(in.gcount());
    if (in && skipped > 0)
      in.seekg(skipped, std::ios::cur); // behind the end the next block is empty
  }
  if (ends.stop_requested())
    return refuse("was not read to its end: the node ends");
  if (seen.bytes > max_data_bytes) // it grows
    return refuse(too_large);
  if (!in.eof())
    return refuse(errno == 0 ? "cannot be read" : std::strerror(errno));
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  EVP_DigestFinal_ex(digest.get(), bytes.data(), &count);
  seen.bytes = huge ? size : seen.bytes;
  seen.sha256 = fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + count, ""));
  return seen;
}

} // namespace

std::string difference(const file_probe& file, const file_probe& there, const std::string& node) {
  return fmt::format("{} differs from node {}'s ({} bytes, SHA-256 {}..., there {} bytes, {}...); copy one of them to all nodes",
                     file.path, node, file.bytes, file.sha256.substr(0, 8), there.bytes, there.sha256.substr(0, 8));
}

std::vector<file_probe> look_at_data(const data_spec& data, const std::stop_token& ends) {
  std::vector<file_probe> seen;
  for (const auto& path : data_files(data))
    seen.push_back(look_at(path, stays_on_disk(data), ends));
  return seen;
}

std::map<std::string, std::string> digests_of(const std::vector<file_probe>& files) {
  std::map<std::string, std::string> out;
  for (const auto& each : files)
    if (each.wrong.empty())
      out[each.path] = each.sha256;
  return out;
}

folder_probe look_at_folder(const std::string& path) {
  folder_probe seen{.path = path};
  try {
    make_folder(path);
  } catch (const std::runtime_error& e) {
    seen.wrong = e.what();
    return seen;
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) {
    seen.wrong = fmt::format("{}: cannot write there: {}", path, std::strerror(errno));
    return seen;
  }
  // A link's target comes into being with it, and takes no space where a disk is full.
  std::random_device source;
  const auto mark = path + "/.mark";
  if (::symlink(fmt::format("{:08x}{:08x}", source(), source()).c_str(), mark.c_str()) == 0 || errno == EEXIST) {
    std::error_code ignored;
    seen.mark = std::filesystem::read_symlink(mark, ignored).string();
  }
  return seen;
}

std::string why_not_writable(const std::string& folder) {
  std::filesystem::path nearest(folder);
  std::error_code ignored;
  while (!exists(nearest, ignored) && nearest.has_relative_path())
    nearest = nearest.parent_path();
  auto inside = (nearest / ".mark-XXXXXX").string();
  if (::mkdtemp(inside.data()) == nullptr)
    return fmt::format("{}: cannot make a folder there: {}", nearest.string(), std::strerror(errno));
  ::rmdir(inside.c_str());
  return {};
}

std::string fault_of(const folder_probe& folder, const folder_probe& there, const std::string& node) {
  if (!folder.wrong.empty())
    return fmt::format("checkpoint.dir: {}; let it be a folder that this node can write", folder.wrong);
  if (folder.mark != there.mark && !folder.mark.empty() && !there.mark.empty())
    return fmt::format("checkpoint.dir = \"{}\" is another folder than node {}'s; name one that all nodes share", folder.path,
                       node);
  return {};
}

std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

node_probe look_around(const probe_query& query, const std::stop_token& ends) {
  node_probe seen{
      .version = version, .lane_version = protocols::wire::protocol_version, .pid = static_cast<std::int32_t>(getpid())};
  for (const auto& device : kernels::list_devices(query.accelerators))
    seen.devices.push_back({device.name, device.usable, device.reason, device.memory_bytes, device.free_bytes});
  seen.files = look_at_data(query.data, ends);
  if (!query.checkpoints.empty())
    seen.checkpoints = look_at_folder(query.checkpoints);
  return seen;
}

} // namespace troupe::actors
