// SPDX-License-Identifier: BSD-3-Clause
// The manifest: what a checkpoint consists of, on the disk after all of it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>
#include <sys/stat.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/crc32c.hpp"
#include "actors/checkpoint/durable_file.hpp"
#include "actors/checkpoint/names.hpp"
#include "actors/checkpoint/shard_format.hpp"

namespace troupe::actors {
namespace {

namespace wire = protocols::wire;

std::uint32_t crc_of(const manifest_head& head, std::span<const std::uint64_t> words) {
  return crc32c(std::as_bytes(words), crc32c(std::as_bytes(std::span(&head, 1)).first(offsetof(manifest_head, crc))));
}

wire::manifest as_message(const checkpoint_manifest& manifest) {
  wire::manifest out{.job = manifest.job,
                     .facts = manifest.facts,
                     .ver = manifest.ver,
                     .samples = manifest.samples,
                     .training = manifest.training_ns,
                     .floats = manifest.floats,
                     .lead = manifest.lead,
                     .coordinator = manifest.coordinator,
                     .files = {},
                     .tensors = {},
                     .data = manifest.data};
  for (const written_file& each : manifest.files)
    out.files.push_back({each.name, each.bytes, each.crc});
  for (const tensor_place& each : manifest.tensors)
    out.tensors.push_back({each.name, each.dims.extents(), each.offset});
  return out;
}

/// Empty, or why the values cannot be believed.
std::string wrong_value(const wire::manifest& m) {
  if (m.floats > std::numeric_limits<std::int64_t>::max() / sizeof(float))
    return fmt::format("names {} parameters", m.floats);
  for (const wire::manifest_file& each : m.files)
    if (!is_state_name(each.name)) // which might lead out of the folder
      return fmt::format("names a file \"{}\", which is no shard's and no worker's", each.name);
  for (const wire::manifest_tensor& each : m.tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : each.dims) {
      if (extent < 0 || (extent > 0 && elements > m.floats / static_cast<std::uint64_t>(extent)))
        return fmt::format("tensor \"{}\" is larger than all parameters", each.name);
      elements *= static_cast<std::uint64_t>(extent);
    }
    if (each.offset < 0 || static_cast<std::uint64_t>(each.offset) > m.floats
        || elements > m.floats - static_cast<std::uint64_t>(each.offset))
      return fmt::format("tensor \"{}\" is outside of the parameters", each.name);
  }
  return {};
}

checkpoint_manifest as_value(wire::manifest m) {
  checkpoint_manifest out{.job = std::move(m.job),
                          .facts = std::move(m.facts),
                          .ver = m.ver,
                          .samples = m.samples,
                          .training_ns = m.training,
                          .floats = m.floats,
                          .lead = std::move(m.lead),
                          .coordinator = std::move(m.coordinator),
                          .files = {},
                          .tensors = {},
                          .data = std::move(m.data)};
  for (const wire::manifest_file& each : m.files)
    out.files.push_back({each.name, each.bytes, each.crc});
  for (wire::manifest_tensor& each : m.tensors)
    out.tensors.push_back({std::move(each.name), shape(std::move(each.dims)), each.offset});
  return out;
}

} // namespace

std::vector<tensor_place> places_of(const parameter_layout& layout) {
  std::vector<tensor_place> out;
  for (const parameter_slot& each : layout.slots)
    out.push_back({each.name, each.dims, each.offset});
  return out;
}

void write_manifest(const std::string& folder, const checkpoint_manifest& manifest) {
  make_folder(folder);
  const auto words = wire::encode(as_message(manifest));
  manifest_head head;
  head.crc = crc_of(head, words);
  durable_file file(folder + "/" + unfinished_manifest);
  file.write(std::as_bytes(std::span(&head, 1)), 0);
  file.write(std::as_bytes(std::span(words)), sizeof head);
  file.sync();
  file.keep_as(folder + "/" + manifest_name);
  sync_folder(folder + "/..");
}

checkpoint_manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + manifest_name;
  const auto refuse = [&](const std::string& why) { throw std::runtime_error(fmt::format("{}: {}", path, why)); };
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    throw_io(path, "open it", errno);
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  manifest_head head;
  if (!S_ISREG(about.st_mode) || bytes < sizeof head || bytes > most_manifest_bytes || bytes % sizeof(std::uint64_t) != 0)
    refuse(fmt::format("{} bytes are not a manifest: it was cut short, or is something else", bytes));
  std::vector<std::uint64_t> words((bytes - sizeof head) / sizeof(std::uint64_t));
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(&head), sizeof head);
  in.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * sizeof(std::uint64_t)));
  if (!in)
    throw_io(path, "read it", errno);
  if (head.magic != manifest_head{}.magic)
    refuse("does not begin as a manifest does");
  if (head.crc != crc_of(head, words))
    refuse("is damaged: its CRC32C differs");
  if (head.format > wire::checkpoint_format)
    throw_newer(path, head.format);
  auto read = wire::decode_manifest(words);
  if (!read)
    refuse(read.error().text);
  if (const auto wrong = wrong_value(*read); !wrong.empty())
    refuse(wrong);
  return as_value(std::move(*read));
}

} // namespace troupe::actors
