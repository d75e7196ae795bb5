// SPDX-License-Identifier: BSD-3-Clause
// The tensors of weights files by the names that models have here.
#pragma once

#include <string>
#include <vector>

#include "tensor/error.hpp"
#include "tensor/layout.hpp"
#include "tensor/safetensors.hpp"

namespace troupe {

/// A tensor of a file that is a parameter.
struct named_tensor {
  std::string name; ///< as the model's slot
  shape dims;       ///< likewise
  stored_tensor stored;
  bool transposed = false; ///< the file has (columns, rows)
};

/// Names of other programs, as names of slots. Files of PyTorch differ in prefixes (`transformer.`, `module.`, `_orig_mod.`) and
/// have buffers that are no parameters: counts of batch norms, masks of attention.
///
/// The kind "gpt" has the names of Hugging Face's GPT-2 (transformers, Conv1D of modeling_gpt2), whose files differ in two more
/// things: a block's matrices are (inputs, outputs), and `lm_head.weight` may be there, the table `wte.weight` again. The shape
/// of the first block's `attn.c_attn` tells which way they are.
///
/// Refuses two tensors of one name. A head that is not its table stays, for the caller to judge.
result<std::vector<named_tensor>> named_tensors(const safetensors_file& file);

/// The file's tensors in the order of the layout's slots: these and no others, of their shapes.
result<std::vector<named_tensor>> match_slots(const safetensors_file& file, const parameter_layout& layout);

/// dims.elements() floats, rows first.
result<void> read_tensor(const safetensors_file& file, const named_tensor& which, float* to);

/// Whether these are parameters that Hugging Face has names for: of the kind "gpt".
bool has_huggingface_names(const std::vector<tensor_to_save>& tensors);
/// Renames and transposes them: GPT2LMHeadModel reads a file with them.
std::vector<tensor_to_save> with_huggingface_names(std::vector<tensor_to_save> tensors);

} // namespace troupe
