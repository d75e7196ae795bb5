// SPDX-License-Identifier: BSD-3-Clause
// Data sets, and how they are read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/data_format.hpp"
#include "tensor/error.hpp"
#include "tensor/shape.hpp"

namespace troupe {

class vocabulary;
struct augmentation;

/// `[data]` of a job file.
struct data_spec {
  std::string source = "digits"; ///< "digits" | "idx" | "cifar10" | "csv" | "text" | "tokens" | "npy" | "safetensors"
  std::string path = {};         ///< folder (idx, cifar10) or file; not used by digits
  std::string test_path = {};    ///< csv, tokens, npy: the test file; empty: the last tenth of `path`
  std::string labels_path = {}, test_labels_path = {}; ///< npy: the labels of either
  std::int64_t batch = 64;                             ///< rows per worker and step
  std::int64_t micro_batch = 0;                        ///< at most so many of them are computed at once; 0: all
  std::string scale = "standard";                      ///< "standard": (x - mean) / std of the training set; "unit": pixels / 255
  std::vector<std::string> augment = {};               ///< images in training: "crop N", "flip": augmentation.hpp
  std::string partition = "shuffled";                  ///< "shuffled" | "by-worker": sample_assignment.hpp
  double sorted_fraction = 0;            ///< by-worker: the part of the training set that is assigned sorted by label
  double label_noise = 0;                ///< how many training labels are replaced: label_noise.hpp
  std::string vocabulary = "characters"; ///< text: "characters" | "bytes"
  std::string token_type = "uint16";     ///< tokens: "uint16" | "uint32"
  std::int64_t vocabulary_size = 0;      ///< tokens: ids are below it
  std::int64_t context = 64, stride = 0; ///< text, tokens: ids of a sample; from one to the next, 0: context
  std::int64_t train_samples = 20000, test_samples = 2000; ///< digits: how many are drawn
  double holdout = 0; ///< the part of the training set that is kept for validation: holdout.hpp
  /// The most rows that are computed at once.
  std::int64_t piece_rows() const { return micro_batch > 0 ? std::min(micro_batch, batch) : batch; }
  friend bool operator==(const data_spec&, const data_spec&) = default;
};

/// Labelled samples, immutable after loading, shared by every actor of a process.
class data_set {
public:
  virtual ~data_set() = default;
  virtual std::int64_t size() const = 0;
  virtual const data_format& format() const = 0;
  const shape& sample() const { return format().sample; } ///< (1, 28, 28), (3, 32, 32), (columns)
  int classes() const { return format().classes; }
  /// The class of a sample that has one; samples are sorted by it among workers (sample_assignment.hpp).
  virtual std::int32_t label(std::uint32_t index) const = 0;
  /// Writes samples `indices` scaled, packed: x(indices, sample) and labels(indices, labels) of the format's types. Thread-safe.
  virtual void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const = 0;
  /// What a batch_loader does with the samples of a step; null: nothing.
  virtual const augmentation* in_training() const { return nullptr; }
};

/// How both sets were scaled: what a sample holds is (x - mean) / deviation, for images with x = pixel / 255.
struct data_scaling {
  std::string pair_of{};                   ///< "channel" | "column": what has a mean and a deviation of its own; empty: unknown
  std::vector<double> mean{}, deviation{}; ///< of the training set; 0 and 1 for scale = "unit"
  friend bool operator==(const data_scaling&, const data_scaling&) = default;
};

struct data_pair {
  std::shared_ptr<const data_set> train, test;
  data_scaling scaling{};
  std::shared_ptr<const vocabulary> words{};    ///< of a text; null: its ids are not known to stand for anything
  std::shared_ptr<const data_set> validation{}; ///< what is held out of the training set; null: nothing
};

/// Reads or draws both sets; both are scaled by the training set's statistics. `seed` keys what digits draws and which labels are
/// replaced. Errors name the file, the byte and what was expected.
result<data_pair> load_data(const data_spec& spec, std::uint64_t seed);
/// The files that it would read, there or not; empty: it draws its samples.
std::vector<std::filesystem::path> data_files(const data_spec& spec);
/// Whether these files are read as samples are needed, and may be larger than memory (data_file.hpp).
bool stays_on_disk(const data_spec& spec);

} // namespace troupe
