// SPDX-License-Identifier: BSD-3-Clause
// Readers of untrusted bytes as plain functions, for the seeded mutator here and for libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::fuzz {

using input = std::vector<std::uint8_t>;

/// What is tried. `run` takes any bytes and returns 0; it ends the process where one of our promises about them is broken, and a
/// sanitizer does where the language's are. It may be called any number of times, on one thread.
struct target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
  std::vector<input> (*corpus)();   ///< good ones, from which mutants are drawn
  std::vector<std::string> words{}; ///< that belong into such bytes
  std::uint32_t cost = 1;           ///< about as many times as slow as the others
};

/// All of them, by name.
const std::vector<target>& targets();

/// The bytes of a text.
input bytes_of(const std::string& text);
/// The content of a file of the source tree, by its path there.
input source_file(const std::string& path);

/// A folder of this process that goes with it.
const std::string& own_folder();
/// Writes the bytes to a file of it, over what was there; returns its path.
const std::string& written(const std::string& name, const std::uint8_t* data, std::size_t size);

/// Ends the process with the sentence, where a promise is broken.
void must(bool kept, const char* promise);

// -- by file: wire.cpp, checkpoint.cpp, data.cpp, onnx.cpp, texts.cpp, http.cpp

int fuzz_lane(const std::uint8_t* data, std::size_t size);
int fuzz_state(const std::uint8_t* data, std::size_t size);
int fuzz_ledger(const std::uint8_t* data, std::size_t size);
int fuzz_manifest(const std::uint8_t* data, std::size_t size);
int fuzz_shard_file(const std::uint8_t* data, std::size_t size);
int fuzz_idx(const std::uint8_t* data, std::size_t size);
int fuzz_cifar10(const std::uint8_t* data, std::size_t size);
int fuzz_csv(const std::uint8_t* data, std::size_t size);
int fuzz_text(const std::uint8_t* data, std::size_t size);
int fuzz_tokens(const std::uint8_t* data, std::size_t size);
int fuzz_npy(const std::uint8_t* data, std::size_t size);
int fuzz_arrays(const std::uint8_t* data, std::size_t size);
int fuzz_safetensors(const std::uint8_t* data, std::size_t size);
int fuzz_onnx(const std::uint8_t* data, std::size_t size);
int fuzz_job(const std::uint8_t* data, std::size_t size);
int fuzz_cluster(const std::uint8_t* data, std::size_t size);
int fuzz_rounds(const std::uint8_t* data, std::size_t size);
int fuzz_calibration(const std::uint8_t* data, std::size_t size);
int fuzz_http(const std::uint8_t* data, std::size_t size);
int fuzz_metrics(const std::uint8_t* data, std::size_t size);

std::vector<input> lane_corpus();
std::vector<input> state_corpus();
std::vector<input> ledger_corpus();
std::vector<input> manifest_corpus();
std::vector<input> shard_file_corpus();
std::vector<input> idx_corpus();
std::vector<input> cifar10_corpus();
std::vector<input> csv_corpus();
std::vector<input> text_corpus();
std::vector<input> tokens_corpus();
std::vector<input> npy_corpus();
std::vector<input> arrays_corpus();
std::vector<input> safetensors_corpus();
std::vector<input> onnx_corpus();
std::vector<input> job_corpus();
std::vector<input> cluster_corpus();
std::vector<input> rounds_corpus();
std::vector<input> calibration_corpus();
std::vector<input> http_corpus();

} // namespace troupe::fuzz
