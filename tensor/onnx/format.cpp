// SPDX-License-Identifier: BSD-3-Clause
// libtroupe_onnx.so: documents from and to the bytes of ONNX files, by protobuf's classes and libonnx's checker.
#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <type_traits>

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "kernels/half.hpp"
#include "tensor/onnx/file.hpp"
#include "tensor/whole_file.hpp"

namespace pb = ::onnx;

namespace troupe::onnx {

namespace {

struct bad_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// No model that we train has more numbers in one tensor.
constexpr double most_elements = 1e11;
constexpr int deepest = 64;

std::size_t bytes_per_element(element_type type) {
  switch (static_cast<int>(type)) {
  case pb::TensorProto::UINT8:
  case pb::TensorProto::INT8:
  case pb::TensorProto::BOOL:
    return 1;
  case pb::TensorProto::UINT16:
  case pb::TensorProto::INT16:
  case pb::TensorProto::FLOAT16:
  case pb::TensorProto::BFLOAT16:
    return 2;
  case pb::TensorProto::FLOAT:
  case pb::TensorProto::INT32:
  case pb::TensorProto::UINT32:
    return 4;
  case pb::TensorProto::DOUBLE:
  case pb::TensorProto::INT64:
  case pb::TensorProto::UINT64:
    return 8;
  default:
    return 0;
  }
}

/// The elements of little-endian bytes.
template <class T, class Out, class Convert>
void spread(const char* bytes, std::size_t count, std::vector<Out>& out, Convert convert) {
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    T each;
    std::memcpy(&each, bytes + i * sizeof(T), sizeof(T));
    out.push_back(static_cast<Out>(convert(each)));
  }
}

void read_raw(const char* bytes, std::size_t count, tensor& out) {
  const auto same = [](auto x) { return x; };
  switch (static_cast<int>(out.type)) {
  case pb::TensorProto::FLOAT:
    return spread<float>(bytes, count, out.floats, same);
  case pb::TensorProto::DOUBLE:
    return spread<double>(bytes, count, out.floats, same);
  case pb::TensorProto::FLOAT16:
    return spread<std::uint16_t>(bytes, count, out.floats, kernels::from_half);
  case pb::TensorProto::BFLOAT16:
    return spread<std::uint16_t>(bytes, count, out.floats, kernels::from_bfloat);
  case pb::TensorProto::INT64:
    return spread<std::int64_t>(bytes, count, out.integers, same);
  case pb::TensorProto::UINT64:
    return spread<std::uint64_t>(bytes, count, out.integers, same);
  case pb::TensorProto::INT32:
    return spread<std::int32_t>(bytes, count, out.integers, same);
  case pb::TensorProto::UINT32:
    return spread<std::uint32_t>(bytes, count, out.integers, same);
  case pb::TensorProto::INT16:
    return spread<std::int16_t>(bytes, count, out.integers, same);
  case pb::TensorProto::UINT16:
    return spread<std::uint16_t>(bytes, count, out.integers, same);
  case pb::TensorProto::INT8:
    return spread<std::int8_t>(bytes, count, out.integers, same);
  default:
    return spread<std::uint8_t>(bytes, count, out.integers, same);
  }
}

/// The bytes that a tensor keeps in another file.
std::string external_bytes(const pb::TensorProto& from, const std::string& name, std::size_t wanted, const std::string& folder) {
  std::string location;
  std::uint64_t offset = 0, length = wanted;
  for (const auto& entry : from.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" || entry.key() == "length")
      (entry.key() == "offset" ? offset : length) = std::strtoull(entry.value().c_str(), nullptr, 10);
  }
  const std::filesystem::path path = location;
  if (folder.empty() || location.empty() || path.is_absolute() || std::ranges::count(path, "..") != 0)
    throw bad_file(fmt::format("{} keeps its data in \"{}\", which is no file in the model's folder", name, location));
  const auto whole = (folder / path).string();
  const open_file file{::open(whole.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file.is_open())
    throw bad_file(fmt::format("{} keeps its data in {}, which is not there; copy that file beside the model", name, whole));
  std::error_code unknown;
  const auto size = std::filesystem::file_size(whole, unknown);
  if (unknown || length != wanted || offset > size || size - offset < wanted)
    throw bad_file(fmt::format("{} needs {} bytes from byte {} of {}, which has {}; copy that file anew", name, wanted, offset,
                               whole, unknown ? 0 : size));
  std::string bytes(wanted, '\0');
  if (!file.read_at(bytes.data(), wanted, offset))
    throw bad_file(fmt::format("{} cannot be read from {}", name, whole));
  return bytes;
}

tensor read_tensor(const pb::TensorProto& from, const std::string& name, const std::string& folder) {
  tensor out{.name = from.name(), .type = static_cast<element_type>(from.data_type()), .dims = {}, .floats = {}, .integers = {}};
  double elements = 1;
  for (const auto extent : from.dims()) {
    elements *= static_cast<double>(extent);
    if (extent < 0 || elements > most_elements)
      throw bad_file(fmt::format("{} has an extent of {}, which no tensor here can have; export the model anew", name, extent));
    out.dims.push_back(extent);
  }
  const auto size = bytes_per_element(out.type);
  if (size == 0)
    throw bad_file(fmt::format("{} has elements of type {}, and numbers are read", name, from.data_type()));
  const auto count = static_cast<std::size_t>(elements);
  const auto fits = [&](std::size_t there) {
    if (there != count)
      throw bad_file(fmt::format("{} has {} elements, but its extents say {}; the file is damaged", name, there, count));
  };
  if (from.data_location() == pb::TensorProto::EXTERNAL) {
    read_raw(external_bytes(from, name, count * size, folder).data(), count, out);
  } else if (from.has_raw_data()) {
    fits(from.raw_data().size() / size);
    read_raw(from.raw_data().data(), count, out);
  } else if (from.data_type() == pb::TensorProto::FLOAT) {
    out.floats.assign(from.float_data().begin(), from.float_data().end());
  } else if (from.data_type() == pb::TensorProto::DOUBLE) {
    for (const double each : from.double_data())
      out.floats.push_back(static_cast<float>(each));
  } else if (from.data_type() == pb::TensorProto::INT64) {
    out.integers.assign(from.int64_data().begin(), from.int64_data().end());
  } else if (!out.is_float()) {
    out.integers.assign(from.int32_data().begin(), from.int32_data().end());
  } else {
    for (const auto bits : from.int32_data())
      out.floats.push_back(out.type == element_type::f16 ? kernels::from_half(static_cast<std::uint16_t>(bits))
                                                         : kernels::from_bfloat(static_cast<std::uint16_t>(bits)));
  }
  fits(out.is_float() ? out.floats.size() : out.integers.size());
  return out;
}

node read_node(const pb::NodeProto& from, const std::string& folder) {
  node out{.name = from.name(), .type = from.op_type(), .domain = from.domain(), .inputs = {}, .outputs = {}, .attributes = {}};
  out.inputs.assign(from.input().begin(), from.input().end());
  out.outputs.assign(from.output().begin(), from.output().end());
  for (const auto& each : from.attribute()) {
    attribute to{.name = each.name(), .value = {}};
    switch (each.type()) {
    case pb::AttributeProto::INT:
      to.value = static_cast<std::int64_t>(each.i());
      break;
    case pb::AttributeProto::FLOAT:
      to.value = each.f();
      break;
    case pb::AttributeProto::STRING:
      to.value = each.s();
      break;
    case pb::AttributeProto::INTS:
      to.value = std::vector<std::int64_t>(each.ints().begin(), each.ints().end());
      break;
    case pb::AttributeProto::FLOATS:
      to.value = std::vector<float>(each.floats().begin(), each.floats().end());
      break;
    case pb::AttributeProto::TENSOR:
      to.value = read_tensor(each.t(), fmt::format("node {}: {}", from.name(), each.name()), folder);
      break;
    default: // graphs and the like: an operator that has them is refused by its name, and one that has not ignores this
      to.value = std::string{};
    }
    out.attributes.push_back(std::move(to));
  }
  return out;
}

declared_value read_declared(const pb::ValueInfoProto& from) {
  const auto& type = from.type().tensor_type();
  declared_value out{.name = from.name(),
                     .type = static_cast<element_type>(type.elem_type()),
                     .dims = {},
                     .has_dims = type.has_shape(),
                     .batch = {}};
  for (const auto& extent : type.shape().dim())
    out.dims.push_back(extent.has_dim_value() ? extent.dim_value() : -1);
  return out;
}

document read_model(const void* bytes, std::size_t count, const std::string& folder) {
  const google::protobuf::LogSilencer quiet; // what is wrong is said here
  google::protobuf::io::CodedInputStream in(static_cast<const std::uint8_t*>(bytes), static_cast<int>(count));
  in.SetTotalBytesLimit(static_cast<int>(count));
  in.SetRecursionLimit(deepest);
  pb::ModelProto model;
  if (!model.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage() || !model.has_graph())
    throw bad_file("is no whole ONNX file: it is cut off or damaged; export or copy it anew");
  document out;
  out.opset = 0;
  for (const auto& set : model.opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      out.opset = set.version();
  out.producer = model.producer_name() + (model.producer_version().empty() ? "" : " " + model.producer_version());
  if (out.opset < oldest_opset || out.opset > newest_opset)
    throw bad_file(fmt::format("has operators of opset {}, and {} to {} are read; export it with one of those, such as "
                               "torch.onnx.export(..., opset_version={})",
                               out.opset, oldest_opset, newest_opset, newest_opset));
  const auto& graph = model.graph();
  out.graph = graph.name();
  for (const auto& each : graph.initializer())
    out.initializers.push_back(read_tensor(each, fmt::format("initializer {}", each.name()), folder));
  if (graph.sparse_initializer_size() > 0)
    throw bad_file("has sparse initializers, which are not read; store them as dense ones");
  for (const auto& each : graph.input())
    out.inputs.push_back(read_declared(each));
  for (const auto& each : graph.output())
    out.outputs.push_back(read_declared(each));
  for (const auto& each : graph.node())
    out.nodes.push_back(read_node(each, folder));
  return out;
}

// -- writing

void write_tensor(const tensor& from, pb::TensorProto& to) {
  to.set_name(from.name);
  to.set_data_type(static_cast<int>(from.type));
  for (const auto extent : from.dims)
    to.add_dims(extent);
  if (from.type == element_type::f32)
    to.set_raw_data(from.floats.data(), from.floats.size() * sizeof(float));
  else if (from.type == element_type::i64)
    to.set_raw_data(from.integers.data(), from.integers.size() * sizeof(std::int64_t));
  else
    to.mutable_int32_data()->Add(from.integers.begin(), from.integers.end()); // booleans
}

void write_attribute(const attribute& from, pb::AttributeProto& to) {
  to.set_name(from.name);
  std::visit(
      [&to](const auto& value) {
        using type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<type, std::int64_t>) {
          to.set_type(pb::AttributeProto::INT);
          to.set_i(value);
        } else if constexpr (std::is_same_v<type, float>) {
          to.set_type(pb::AttributeProto::FLOAT);
          to.set_f(value);
        } else if constexpr (std::is_same_v<type, std::string>) {
          to.set_type(pb::AttributeProto::STRING);
          to.set_s(value);
        } else if constexpr (std::is_same_v<type, tensor>) {
          to.set_type(pb::AttributeProto::TENSOR);
          write_tensor(value, *to.mutable_t());
        } else if constexpr (std::is_same_v<type, std::vector<float>>) {
          to.set_type(pb::AttributeProto::FLOATS);
          to.mutable_floats()->Add(value.begin(), value.end());
        } else {
          to.set_type(pb::AttributeProto::INTS);
          to.mutable_ints()->Add(value.begin(), value.end());
        }
      },
      from.value);
}

void write_declared(const declared_value& from, pb::ValueInfoProto& to) {
  to.set_name(from.name);
  auto& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(from.type));
  for (const auto extent : from.dims) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (extent < 0)
      dim.set_dim_param(from.batch);
    else
      dim.set_dim_value(extent);
  }
}

std::string write_model(const document& from) {
  constexpr int ir_version = 8; // of opset 17
  pb::ModelProto model;
  model.set_ir_version(ir_version);
  model.set_producer_name(from.producer);
  model.add_opset_import()->set_version(from.opset);
  auto& graph = *model.mutable_graph();
  graph.set_name(from.graph);
  for (const auto& each : from.inputs)
    write_declared(each, *graph.add_input());
  for (const auto& each : from.outputs)
    write_declared(each, *graph.add_output());
  for (const auto& each : from.initializers)
    write_tensor(each, *graph.add_initializer());
  for (const auto& each : from.nodes) {
    auto& to = *graph.add_node();
    to.set_name(each.name);
    to.set_op_type(each.type);
    for (const auto& name : each.inputs)
      to.add_input(name);
    for (const auto& name : each.outputs)
      to.add_output(name);
    for (const auto& attribute : each.attributes)
      write_attribute(attribute, *to.add_attribute());
  }
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    throw bad_file("the model has more than 2 GB, and an ONNX file cannot");
  pb::checker::check_model(model);
  return bytes;
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): the loader looks for these names
extern "C" {

__attribute__((visibility("default"))) const char* troupe_onnx_build() {
  return TROUPE_ONNX_BUILD;
}

__attribute__((visibility("default"))) bool troupe_onnx_read(const void* bytes, std::size_t count, const std::string& folder,
                                                             document& into, std::string& why) {
  try {
    into = read_model(bytes, count, folder);
    return true;
  } catch (const std::exception& e) {
    why = e.what();
    return false;
  }
}

__attribute__((visibility("default"))) bool troupe_onnx_write(const document& model, std::string& bytes, std::string& why) {
  try {
    bytes = write_model(model);
    return true;
  } catch (const std::exception& e) {
    why = e.what();
    return false;
  }
}
}
// NOLINTEND(readability-identifier-naming)

} // namespace troupe::onnx
