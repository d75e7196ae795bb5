// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes ONNX files by libtroupe_onnx.so, which is loaded when the first file is asked for: a program that needs none
// neither links libonnx and protobuf nor starts them.
#pragma once

#include <string>

#include "tensor/error.hpp"
#include "tensor/onnx/document.hpp"

namespace troupe::onnx {

/// The oldest and the newest set of operators that is read. Files are written with the newest.
inline constexpr std::int64_t oldest_opset = 11, newest_opset = 17;

/// Reads a file and the files beside it that hold its external data. Anything may be in it: memory is bounded by the sizes of the
/// files. An error names the file, the place in it and the remedy. Any thread.
result<document> read_file(const std::string& path);
/// The same of the bytes of a file; external data is looked for in `folder`, and nothing is external where that is empty.
result<document> read_bytes(const void* bytes, std::size_t count, const std::string& folder);

/// The bytes of a file, after libonnx's checker has found nothing wrong.
result<std::string> to_bytes(const document& model);

/// The functions of libtroupe_onnx.so. C++ objects cross: `build` tells whether both sides are of one build.
struct format_library {
  static constexpr const char* file_name = "libtroupe_onnx.so";
  static constexpr const char *build_symbol = "troupe_onnx_build", *read_symbol = "troupe_onnx_read",
                              *write_symbol = "troupe_onnx_write";
  /// Whether it went well; else `why` is a sentence without the file's name.
  using read_function = bool(const void* bytes, std::size_t count, const std::string& folder, document& into, std::string& why);
  using write_function = bool(const document& model, std::string& bytes, std::string& why);
};

} // namespace troupe::onnx
