// SPDX-License-Identifier: BSD-3-Clause
// Prefixes, masks, tied heads and transposed matrices of other programs' files.
#include "tensor/weights_names.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace troupe {

namespace {

constexpr std::string_view table = "wte.weight", head = "lm_head.weight", first_product = "h.0.attn.c_attn.weight";
constexpr std::string_view huggingface_prefix = "transformer.";

std::string without_prefixes(std::string_view name) {
  constexpr std::string_view prefixes[]{huggingface_prefix, "module.", "_orig_mod."};
  for (bool found = true; found;) {
    found = false;
    for (const auto prefix : prefixes)
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        found = true;
      }
  }
  return std::string{name};
}

/// A GPT-2 block's matrix.
bool is_product(std::string_view name) {
  return name.starts_with("h.")
         && (name.ends_with(".attn.c_attn.weight") || name.ends_with(".attn.c_proj.weight") || name.ends_with(".mlp.c_fc.weight")
             || name.ends_with(".mlp.c_proj.weight"));
}

bool is_buffer(std::string_view name) {
  return name.ends_with(".num_batches_tracked")
         || (name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")));
}

shape turned(const shape& matrix) {
  return {matrix[1], matrix[0]};
}

template <class Tensors>
auto find_named(Tensors& tensors, std::string_view name) {
  return std::ranges::find_if(tensors, [name](const auto& each) { return each.name == name; });
}

/// Three times as many outputs as inputs, so either way is a sign of its own.
bool is_turned(const shape& matrix) {
  return matrix.rank() == 2 && matrix[1] == 3 * matrix[0];
}

result<bool> are_equal(const safetensors_file& file, const named_tensor& one, const named_tensor& other) {
  if (one.dims != other.dims || one.stored.type != other.stored.type)
    return false;
  const auto count = static_cast<std::size_t>(one.dims.elements());
  std::vector<float> left(count), right(count);
  for (const auto& [tensor, to] : {std::pair{&one, &left}, {&other, &right}})
    if (auto read = file.read(tensor->stored, to->data()); !read)
      return read.error();
  return std::memcmp(left.data(), right.data(), count * sizeof(float)) == 0;
}

} // namespace

result<std::vector<named_tensor>> named_tensors(const safetensors_file& file) {
  std::vector<named_tensor> all;
  for (const auto& each : file.tensors())
    if (auto name = without_prefixes(each.name); !is_buffer(name)) {
      if (find_named(all, name) != all.end())
        return file.refuse(fmt::format("has two tensors \"{}\"; the second as \"{}\"", name, each.name));
      all.push_back({std::move(name), each.dims, each});
    }
  if (const auto first = find_named(all, first_product); first != all.end() && is_turned(first->dims))
    for (auto& each : all)
      if (is_product(each.name) && each.dims.rank() == 2) {
        each.dims = turned(each.dims);
        each.transposed = true;
      }
  const auto last = find_named(all, head), first = find_named(all, table);
  if (last != all.end() && first != all.end()) {
    const auto tied = are_equal(file, *last, *first);
    if (!tied)
      return tied.error();
    if (*tied)
      all.erase(last);
  }
  return all;
}

result<std::vector<named_tensor>> match_slots(const safetensors_file& file, const parameter_layout& layout) {
  auto named = named_tensors(file);
  if (!named)
    return named.error();
  std::vector<named_tensor> matched;
  for (const auto& slot : layout.slots) {
    auto found = find_named(*named, slot.name);
    if (found == named->end()) // a program's own model may have such a prefix
      found = std::ranges::find(*named, slot.name, [](const named_tensor& each) { return each.stored.name; });
    if (found == named->end())
      return file.refuse(fmt::format("lacks the tensor \"{}\" {} of the model", slot.name, slot.dims.to_string()));
    matched.push_back(*found);
  }
  for (std::size_t i = 0; i < matched.size(); ++i)
    if (const auto& tensor = matched[i]; tensor.dims != layout.slots[i].dims)
      return file.refuse(fmt::format("tensor \"{}\" is {}{}, the model's is {}", tensor.stored.name, tensor.dims.to_string(),
                                     tensor.transposed ? " turned" : "", layout.slots[i].dims.to_string()));
  for (const auto& tensor : *named)
    if (layout.find(tensor.name) < 0 && layout.find(tensor.stored.name) < 0)
      return file.refuse(
          tensor.name == head
              ? fmt::format("tensor \"{}\" is not \"{}\" again, and the model's head is", tensor.stored.name, table)
              : fmt::format("has a tensor \"{}\" that the model does not have", tensor.stored.name));
  return matched;
}

result<void> read_tensor(const safetensors_file& file, const named_tensor& which, float* to) {
  if (!which.transposed)
    return file.read(which.stored, to);
  const auto count = static_cast<std::size_t>(which.dims.elements());
  std::vector<float> stored(count);
  if (auto read = file.read(which.stored, stored.data()); !read)
    return read;
  const auto rows = static_cast<std::size_t>(which.dims[0]), columns = static_cast<std::size_t>(which.dims[1]);
  for (std::size_t i = 0; i < count; ++i)
    to[i % rows * columns + i / rows] = stored[i];
  return {};
}

bool has_huggingface_names(const std::vector<tensor_to_save>& tensors) {
  return find_named(tensors, table) != tensors.end() && find_named(tensors, first_product) != tensors.end();
}

std::vector<tensor_to_save> with_huggingface_names(std::vector<tensor_to_save> tensors) {
  for (auto& each : tensors) {
    if (is_product(each.name)) {
      each.dims = turned(each.dims);
      each.transposed = true;
    }
    each.name.insert(0, huggingface_prefix);
  }
  return tensors;
}

} // namespace troupe
