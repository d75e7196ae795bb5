// SPDX-License-Identifier: BSD-3-Clause
// Parameters as safetensors files, and as a digest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/error.hpp"
#include "tensor/layout.hpp"

namespace troupe {

/// How a file keeps numbers that parameters can be read from: float, IEEE half precision, the upper half of a float.
enum class stored_type : std::uint8_t { f32, f16, bf16 };

/// What a file says of one tensor.
struct stored_tensor {
  std::string name;
  std::string type; ///< "F32", "BF16", "I64", ...
  shape dims;
  std::uint64_t begin = 0, end = 0; ///< its bytes, from where the data of its file begins
  std::size_t file = 0;             ///< which of an index's
  std::uint64_t bytes() const { return end - begin; }
};

/// A safetensors file, or several with an index: a JSON file whose "weight_map" names each tensor's file, in the same folder.
/// Trusts nothing: of what is opened, each tensor has as many bytes as its shape and type say, and they fill their file.
class safetensors_file {
public:
  /// Reads headers. Refuses (errc::bad_weights, or errc::io where a file cannot be opened) with file and tensor; a header over
  /// 100 MB is not read.
  static result<safetensors_file> open(const std::string& path);

  /// As they lie in the files.
  const std::vector<stored_tensor>& tensors() const;
  /// "__metadata__", as far as it is texts; of several files, that of the first.
  const std::map<std::string, std::string>& metadata() const;
  /// One of `tensors()`, as floats, dims.elements() of them. Refuses what is none of `stored_type`.
  result<void> read(const stored_tensor& which, float* to) const;
  /// An error about this file.
  error refuse(std::string message) const;

private:
  struct opened;
  explicit safetensors_file(std::shared_ptr<const opened> all) : all_(std::move(all)) {}
  std::shared_ptr<const opened> all_;
};

/// A tensor on its way to a file.
struct tensor_to_save {
  std::string name;
  shape dims;        ///< in the file
  const float* data; ///< host memory; the caller's until the file is written
  stored_type type = stored_type::f32;
  bool transposed = false; ///< dims are (columns, rows) of the matrix at `data`
};

/// A model's parameters (host memory, layout.floats() floats), which stay the caller's.
std::vector<tensor_to_save> tensors_of(const parameter_layout& layout, const float* flat);

/// Writes the parameters (host memory, layout.floats() floats) to `path`: 8 bytes of header length, a JSON header padded with
/// spaces so that the data is 8-byte aligned, the slots packed in layout order, little-endian
/// (https://huggingface.co/docs/safetensors). `metadata` becomes "__metadata__".
///
/// The file appears under its name only when it is whole and on the disk: it is written to a temporary name in the same
/// folder, flushed and renamed. On any failure (errc::io, naming the file and the reason) nothing partial is left and a file
/// of that name is as it was.
result<void> save_safetensors(const std::string& path, const parameter_layout& layout, const float* flat,
                              const std::map<std::string, std::string>& metadata = {});

/// Likewise, of any tensors, in their order.
result<void> save_safetensors(const std::string& path, const std::vector<tensor_to_save>& tensors,
                              const std::map<std::string, std::string>& metadata);

/// Reads the parameters of `layout` into `flat` (host memory, layout.floats() floats; gaps zeroed) from a file or an index of
/// several. They must hold exactly the layout's tensors, of its shapes, in any order, by its names or by Hugging Face's
/// (weights_names.hpp), as any `stored_type`. What is truncated, mislabelled, missing, of another shape or beyond the model is
/// refused as by safetensors_file. After an error `flat` may be partly written.
result<void> load_safetensors(const std::string& path, const parameter_layout& layout, float* flat);

/// The "__metadata__" of a file, as far as it is texts; empty where it has none. Refuses a broken header as load_safetensors
/// does.
result<std::map<std::string, std::string>> read_safetensors_metadata(const std::string& path);

/// The first 32 hexadecimal digits of the SHA-256 of the parameters' bytes in layout order, gaps between slots left out:
/// equal digests mean equal weights, bit for bit.
std::string weights_digest(const parameter_layout& layout, const float* flat);

} // namespace troupe
