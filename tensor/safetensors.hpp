// SPDX-License-Identifier: BSD-3-Clause
// Parameters as safetensors files, and as a digest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor/error.hpp"
#include "tensor/layout.hpp"

namespace troupe {

/// Writes the parameters (host memory, layout.floats() floats) to `path`: 8 bytes of header length, a JSON header padded with
/// spaces so that the data is 8-byte aligned, the slots packed in layout order, little-endian
/// (https://huggingface.co/docs/safetensors). `metadata` becomes "__metadata__".
///
/// The file appears under its name only when it is whole and on the disk: it is written to a temporary name in the same
/// folder, flushed and renamed. On any failure (errc::io, naming the file and the reason) nothing partial is left and a file
/// of that name is as it was.
result<void> save_safetensors(const std::string& path, const parameter_layout& layout, const float* flat,
                              const std::map<std::string, std::string>& metadata = {});

/// Reads the parameters of `layout` into `flat` (host memory, layout.floats() floats; gaps zeroed). The file must hold exactly
/// the layout's tensors, F32, of its shapes, packed without holes, in any order. What is truncated, mislabelled, missing, of
/// another shape or beyond the model is refused (errc::bad_weights), naming file and tensor; a header over 100 MB is not read.
/// After an error `flat` may be partly written.
result<void> load_safetensors(const std::string& path, const parameter_layout& layout, float* flat);

/// The "__metadata__" of a file, as far as it is texts; empty where it has none. Refuses a broken header as load_safetensors
/// does.
result<std::map<std::string, std::string>> read_safetensors_metadata(const std::string& path);

/// A tensor of any type, where it stands.
struct stored_tensor {
  std::string name, type; ///< "F32"
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0, end = 0; ///< bytes of the file
};
/// Those of a file, in the order of their bytes. Refuses a broken header; a tensor's bytes lie within the file.
result<std::vector<stored_tensor>> read_safetensors_index(const std::string& path);

/// The first 32 hexadecimal digits of the SHA-256 of the parameters' bytes in layout order, gaps between slots left out:
/// equal digests mean equal weights, bit for bit.
std::string weights_digest(const parameter_layout& layout, const float* flat);

} // namespace troupe
