// SPDX-License-Identifier: BSD-3-Clause
// An ONNX file as plain values: what its reader gives and its writer takes, free of protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe::onnx {

/// Types of elements by their numbers in onnx.proto3; others are kept as they are.
enum class element_type : std::int32_t { undefined = 0, f32 = 1, i32 = 6, i64 = 7, boolean = 9, f16 = 10, f64 = 11, bf16 = 16 };

/// A tensor of the file, read whole: floating-point numbers as float, whatever their type was, all others as int64.
struct tensor {
  std::string name{};
  element_type type = element_type::f32;
  std::vector<std::int64_t> dims{};
  std::vector<float> floats{};
  std::vector<std::int64_t> integers{};
  bool is_float() const {
    return type == element_type::f32 || type == element_type::f16 || type == element_type::f64 || type == element_type::bf16;
  }
};

struct attribute {
  std::string name{};
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>, tensor> value{};
};

struct node {
  std::string name{}; ///< may be empty, or not its own
  std::string type{}; ///< "MatMul"
  std::string domain{};
  std::vector<std::string> inputs{}; ///< an empty name: left out
  std::vector<std::string> outputs{};
  std::vector<attribute> attributes{};
};

/// An input or output of the graph.
struct declared_value {
  std::string name{};
  element_type type = element_type::f32;
  std::vector<std::int64_t> dims{}; ///< -1: a name instead of a number, or unknown
  bool has_dims = true;
  std::string batch{}; ///< written: the name of the first extent where `dims` has -1
};

struct document {
  std::int64_t opset = 17; ///< of the standard operators
  std::string producer{};  ///< "pytorch 1.13.1"
  std::string graph{};     ///< its name
  std::vector<declared_value> inputs{}, outputs{};
  std::vector<tensor> initializers{};
  std::vector<node> nodes{};
};

} // namespace troupe::onnx
