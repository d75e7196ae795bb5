// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint on a disk: DIR/step-N with a file of each shard, one of each worker that keeps something, and a manifest that
// proves them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocols/ids.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// What a shard's file, or a worker's, tells beside its blocks.
struct shard_head {
  std::uint32_t shard = 0; ///< or the worker
  protocols::version ver{};
  flat_range range{};                             ///< of the job's flat parameters
  std::map<std::string, std::uint64_t> numbers{}; ///< "optimizer.steps"
  friend bool operator==(const shard_head&, const shard_head&) = default;
};

/// One float for each element of the range: "parameters", "velocity", "second".
struct named_block {
  std::string name{};
  std::span<const float> values{};
};

/// How a file is known again.
struct written_file {
  std::string name{}; ///< within the folder
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0; ///< CRC32C of its footer, which has those of the rest
  friend bool operator==(const written_file&, const written_file&) = default;
};

/// Writes `folder`/shard-I.ckpt and makes it durable, the folder too; makes the folder where it is missing. Throws
/// std::runtime_error that names the file and the cause, and leaves no file of that name then: after a failed fsync the file is
/// not tried again.
written_file write_shard_file(const std::string& folder, const shard_head& head, std::span<const named_block> blocks);

/// Likewise `folder`/worker-I-L.ckpt; L: which of the worker's lives writes it.
written_file write_worker_file(const std::string& folder, std::uint32_t life, const shard_head& head,
                               std::span<const named_block> blocks);

/// A shard's file, or a worker's, mapped into memory. Thread-safe once made.
class shard_file {
public:
  /// Throws std::runtime_error that names the file where it is absent, torn, of a newer format, or not the one expected.
  shard_file(const std::string& folder, const written_file& expected);
  ~shard_file();
  shard_file(const shard_file&) = delete;
  shard_file& operator=(const shard_file&) = delete;

  const shard_head& head() const;
  std::vector<std::string> blocks() const;
  bool has(const std::string& block) const;
  /// 0 where it tells none of this name.
  std::uint64_t number(const std::string& name) const;
  /// Copies the elements of `part`, a range of the flat parameters within this file's, after the CRCs of the pieces that they lie
  /// in. Throws std::runtime_error that names file, block and byte where one differs.
  void read(const std::string& block, flat_range part, float* to) const;
  /// All pieces; throws likewise.
  void verify() const;

private:
  struct mapped;
  std::unique_ptr<mapped> mapped_;
};

/// Where a parameter is in the flat ones: what `troupe checkpoint export` needs of the model's layout.
struct tensor_place {
  std::string name{}; ///< "linear1.weight"
  shape dims{};
  std::int64_t offset = 0; ///< in floats
  friend bool operator==(const tensor_place&, const tensor_place&) = default;
};
std::vector<tensor_place> places_of(const parameter_layout& layout);

/// What the manifest tells: the job, where it was, and which files belong to it.
struct checkpoint_manifest {
  std::string job{};                          ///< its name
  std::map<std::string, std::string> facts{}; ///< what --resume compares and `inspect` shows, by job key: "optimizer.name"
  protocols::version ver{};                   ///< steps
  std::uint64_t samples = 0;                  ///< applied
  std::int64_t training_ns = 0;
  std::uint64_t floats = 0;                 ///< of the flat parameters
  std::vector<std::uint64_t> lead{};        ///< wire::encode_state of the lead's
  std::vector<std::uint64_t> coordinator{}; ///< likewise
  std::vector<written_file> files{};
  std::vector<tensor_place> tensors{};       ///< of the model's layout, in its order
  std::map<std::string, std::string> data{}; ///< SHA-256, by path, of the files that the job reads; empty: not known
  /// Otherwise every worker had parameters of its own, and there are their files alone.
  bool has_shards() const;
  friend bool operator==(const checkpoint_manifest&, const checkpoint_manifest&) = default;
};

/// Writes `folder`/manifest under another name, makes it durable, renames it, and makes folder and parent durable. Throws
/// std::runtime_error.
void write_manifest(const std::string& folder, const checkpoint_manifest& manifest);
/// Throws std::runtime_error that names the file and what is wrong with it.
checkpoint_manifest read_manifest(const std::string& folder);

/// "step-40" of 40; and back, none where it is no such name.
std::string checkpoint_name(protocols::version ver);
std::optional<protocols::version> checkpoint_version(const std::string& name);

/// The steps in `dir` with a manifest or a shard's file, in order.
std::vector<protocols::version> checkpoints_in(const std::string& dir);
/// Removes one, its manifest first. What is not a checkpoint's file stays, and the folder with it.
void remove_checkpoint(const std::string& dir, protocols::version ver);
/// Removes those after `begin` and before `end` that have no manifest: files of roles that stood still while the rest was written
/// and removed.
void remove_strays(const std::string& dir, protocols::version begin, protocols::version end);
/// Whether manifest and files are whole, every CRC read, and have every one of the flat parameters; else why not.
std::optional<std::string> fault_of(const std::string& folder);
/// The same, with all that is wrong: one a file.
std::vector<std::string> faults_of(const std::string& folder);
/// Elements of a block over all shards' files, for any other division into shards. `to` has part.size() floats. False: no file
/// has this block. Where no shard wrote one, "parameters" are the mean of the workers' replicas, as in an evaluation. Throws as
/// shard_file does.
bool read_block(const std::string& folder, const checkpoint_manifest& manifest, const std::string& block, flat_range part,
                float* to);
/// The largest that a shard's file has, 0 where none has it: shards that apply each push alone may differ by a few.
std::uint64_t read_number(const std::string& folder, const checkpoint_manifest& manifest, const std::string& name);
/// Null: this worker kept nothing, or there was none.
const written_file* file_of_worker(const checkpoint_manifest& manifest, std::uint32_t worker);

} // namespace troupe::actors
