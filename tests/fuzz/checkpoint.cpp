// SPDX-License-Identifier: BSD-3-Clause
// The files of a checkpoint, with checksums that hold: those are not what keeps a reader from believing the rest.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>

#include <sys/stat.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/crc32c.hpp"
#include "actors/checkpoint/names.hpp"
#include "actors/checkpoint/shard_format.hpp"
#include "protocols/wire/state.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

namespace {

using namespace actors;

constexpr std::int64_t floats = 1500; // two pages and a bit

std::string folder() {
  return own_folder() + "/checkpoint";
}

input content_of(const std::string& path) {
  input out;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  must(file != nullptr, "what was written is there");
  std::uint8_t some[4096];
  for (std::size_t got = 0; (got = std::fread(some, 1, sizeof some, file)) > 0;)
    out.insert(out.end(), some, some + got);
  std::fclose(file);
  return out;
}

std::vector<float> some_floats() {
  std::vector<float> out(floats);
  std::iota(out.begin(), out.end(), 0.5F);
  return out;
}

written_file write_shard() {
  const auto values = some_floats();
  return write_shard_file(folder(), {.shard = 0, .ver = {40}, .range = {0, floats}, .numbers = {{"optimizer.steps", 40}}},
                          std::vector<named_block>{{"parameters", values}, {"velocity", values}});
}

checkpoint_manifest manifest_of(std::vector<written_file> files) {
  return {.job = "fuzzed",
          .facts = {{"optimizer.name", "sgd"}, {"seed", "7"}},
          .ver = {40},
          .samples = 2560,
          .training_ns = 1'000'000'000,
          .floats = floats,
          .lead = protocols::wire::encode_state(protocols::lead_state{.made = {40}}),
          .files = std::move(files),
          .tensors = {{"linear1.weight", shape({30, 49}), 0}, {"linear1.bias", shape({30}), 1470}}};
}

template <class Head>
std::uint32_t crc_before(const Head& head) {
  return crc32c(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, crc)));
}

/// Reads all that a folder's files say; whatever is wrong with them is said by an exception.
void read_all() {
  try {
    const auto what = read_manifest(folder());
    std::vector<float> values(floats);
    for (const char* block : {"parameters", "velocity", "second"})
      read_block(folder(), what, block, {0, floats}, values.data());
    read_block(folder(), what, "parameters", {700, 900}, values.data());
    read_number(folder(), what, "optimizer.steps");
  } catch (const std::runtime_error&) {
  }
  fault_of(folder());
  faults_of(folder());
}

} // namespace

int fuzz_manifest(const std::uint8_t* data, std::size_t size) {
  static const written_file shard = write_shard();
  input bytes(data, data + size);
  for (const bool repaired : {false, true}) {
    manifest_head head;
    if (repaired && bytes.size() >= sizeof head) {
      std::memcpy(&head, bytes.data(), sizeof head);
      head.crc = crc32c(std::as_bytes(std::span(bytes).subspan(sizeof head)), crc_before(head));
      std::memcpy(bytes.data(), &head, sizeof head);
    }
    written("checkpoint/manifest", bytes.data(), bytes.size());
    read_all();
  }
  return 0;
}

std::vector<input> manifest_corpus() {
  write_manifest(folder(), manifest_of({write_shard()}));
  return {content_of(folder() + "/" + manifest_name)};
}

int fuzz_shard_file(const std::uint8_t* data, std::size_t size) {
  static const written_file made = write_shard(); // and its folder
  input bytes(data, data + size);
  shard_file_head head;
  if (size < sizeof head)
    return 0;
  for (const bool repaired : {false, true}) {
    std::memcpy(&head, bytes.data(), sizeof head);
    if (repaired && head.footer_offset <= size && head.footer_bytes <= size - head.footer_offset) {
      head.footer_crc = crc32c(std::as_bytes(std::span(bytes).subspan(head.footer_offset, head.footer_bytes)));
      head.crc = crc_before(head);
      std::memcpy(bytes.data(), &head, sizeof head);
    }
    const written_file expected{.name = "shard-0.ckpt", .bytes = size, .crc = head.footer_crc};
    written("checkpoint/shard-0.ckpt", bytes.data(), bytes.size());
    write_manifest(folder(), manifest_of({expected}));
    read_all();
    try {
      const shard_file file(folder(), expected);
      std::vector<float> values(floats);
      for (const std::string& block : file.blocks())
        if (const auto where = file.head().range; where.size() > 0 && where.size() <= floats)
          file.read(block, where, values.data());
      file.verify();
    } catch (const std::runtime_error&) {
    }
  }
  return 0;
}

std::vector<input> shard_file_corpus() {
  write_shard();
  return {content_of(folder() + "/shard-0.ckpt")};
}

} // namespace troupe::fuzz
