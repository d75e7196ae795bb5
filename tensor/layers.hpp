// SPDX-License-Identifier: BSD-3-Clause
// Layers: the meaning of a job file's strings. Each says its words, reads them, and adds its nodes to a model's graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/error.hpp"
#include "tensor/graph.hpp"

namespace troupe::layers {

class builder; // builder.hpp
class line;    // line.hpp
struct any;

// A layer has
//   words, example     how it is written; the first word tells it from the others
//   parse(line)        reads what follows the first word
//   build(builder, x)  its result from x; none after builder::fail
// and it stands in `any`. Its two functions are in layers_*.cpp.

/// y = act(x W' + b) over the last axis of (rows, features) or (rows, length, features). The weight is stored as (units, inputs),
/// as PyTorch does; README.md has the times of both orders.
struct linear {
  static constexpr std::string_view words = "linear N [act]", example = "linear 128 relu";
  static result<linear> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t units = 0;
  kernels::activation act = kernels::activation::none;
  friend bool operator==(const linear&, const linear&) = default;
};
/// y = act(conv(x) + b), weight (channels, C / groups, kernel_h, kernel_w).
struct conv {
  static constexpr std::string_view words = "conv K HxW [act] [stride S] [pad P] [dilation D] [groups G]",
                                    example = "conv 32 3x3 relu stride 1 pad 1";
  static result<conv> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t channels = 0, kernel_h = 3, kernel_w = 3;
  kernels::activation act = kernels::activation::none;
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  friend bool operator==(const conv&, const conv&) = default;
};
/// Windows of size x size that do not overlap; a rest that does not fill a window is left out.
struct max_pool {
  static constexpr std::string_view words = "pool N", example = "pool 2";
  static result<max_pool> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t size = 2;
  friend bool operator==(const max_pool&, const max_pool&) = default;
};
/// The mean instead; of all places, those of an image or of a sequence, where the size is 0: (rows, C, H, W) -> (rows, C),
/// (rows, length, width) -> (rows, width).
struct avg_pool {
  static constexpr std::string_view words = "avgpool N|all", example = "avgpool 2";
  static result<avg_pool> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t size = 2;
  friend bool operator==(const avg_pool&, const avg_pool&) = default;
};
/// (rows, C, H, W) -> (rows, C H W).
struct flatten {
  static constexpr std::string_view words = "flatten", example = "flatten";
  static result<flatten> parse(line&) { return flatten{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const flatten&, const flatten&) = default;
};
/// Over all features of a sample, or of each place of a sequence; with a learnt scale and shift per feature.
struct layernorm {
  static constexpr std::string_view words = "layernorm", example = "layernorm";
  static result<layernorm> parse(line&) { return layernorm{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const layernorm&, const layernorm&) = default;
};
/// The same without mean and shift.
struct rmsnorm {
  static constexpr std::string_view words = "rmsnorm", example = "rmsnorm";
  static result<rmsnorm> parse(line&) { return rmsnorm{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const rmsnorm&, const rmsnorm&) = default;
};
/// Over each group of neighbouring channels.
struct groupnorm {
  static constexpr std::string_view words = "groupnorm G", example = "groupnorm 8";
  static result<groupnorm> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t groups = 1;
  friend bool operator==(const groupnorm&, const groupnorm&) = default;
};
/// Over the rows of the batch, for each channel or feature; its running mean and variance are statistics (slot_kind).
struct batchnorm {
  static constexpr std::string_view words = "batchnorm", example = "batchnorm";
  static result<batchnorm> parse(line&) { return batchnorm{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const batchnorm&, const batchnorm&) = default;
};
struct dropout {
  static constexpr std::string_view words = "dropout RATE", example = "dropout 0.5";
  static result<dropout> parse(line& l);
  value_id build(builder& b, value_id x) const;

  double rate = 0.5;
  friend bool operator==(const dropout&, const dropout&) = default;
};
/// Ids become rows of a table: (rows, length) -> (rows, length, width).
struct embedding {
  static constexpr std::string_view words = "embedding N", example = "embedding 128";
  static result<embedding> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t width = 0;
  friend bool operator==(const embedding&, const embedding&) = default;
};
/// Adds a learnt vector for each place: (rows, length, width).
struct positions {
  static constexpr std::string_view words = "positions", example = "positions";
  static result<positions> parse(line&) { return positions{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const positions&, const positions&) = default;
};
/// Self-attention with its projections before and after. `key_heads` 0: as many as heads. Rotary positions turn queries and keys.
struct attention {
  static constexpr std::string_view words = "attention H [causal] [keys G] [rotary] [dropout RATE]",
                                    example = "attention 4 causal";
  static result<attention> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t heads = 1;
  bool causal = false;
  std::int64_t key_heads = 0;
  bool rotary = false;
  double dropout = 0;
  friend bool operator==(const attention&, const attention&) = default;
};
/// (rows, length, features) -> (rows, length, units), or the last place's (rows, units).
struct lstm {
  static constexpr std::string_view words = "lstm N [last]", example = "lstm 256";
  static result<lstm> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t units = 0;
  bool last = false;
  friend bool operator==(const lstm&, const lstm&) = default;
};
struct gru {
  static constexpr std::string_view words = "gru N [last]", example = "gru 256";
  static result<gru> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t units = 0;
  bool last = false;
  friend bool operator==(const gru&, const gru&) = default;
};
/// Logits of all classes, without a bias; tied: by the table of the embedding.
struct head {
  static constexpr std::string_view words = "head [tied]", example = "head tied";
  static result<head> parse(line& l);
  value_id build(builder& b, value_id x) const;

  bool tied = false;
  friend bool operator==(const head&, const head&) = default;
};
/// x plus what the layers between the braces make of it. The outermost braces are a block (graph::begin_block).
struct residual {
  static constexpr std::string_view words = "residual { ... }", example = "residual {";
  static result<residual> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::vector<any> body;
  friend bool operator==(const residual&, const residual&);
};
/// The layers between the braces so many times, each time with parameters of its own; a block.
struct repeat {
  static constexpr std::string_view words = "repeat N { ... }", example = "repeat 6 {";
  static result<repeat> parse(line& l);
  value_id build(builder& b, value_id x) const;

  std::int64_t times = 1;
  std::vector<any> body;
  friend bool operator==(const repeat&, const repeat&);
};
/// Ends what a line with a brace has begun; only in a list of lines.
struct end {
  static constexpr std::string_view words = "}", example = "}";
  static result<end> parse(line&) { return end{}; }
  value_id build(builder& b, value_id x) const;
  friend bool operator==(const end&, const end&) = default;
};
/// The name of an activation (kernels/activation.hpp).
struct activate {
  static constexpr std::string_view words = "", example = "relu";
  static result<activate> parse(line& l);
  value_id build(builder& b, value_id x) const;

  kernels::activation act = kernels::activation::relu;
  friend bool operator==(const activate&, const activate&) = default;
};

/// One layer. `name` is what messages call it: `layer 2 "linear 10"`; where it has none, it is called by its place.
struct any {
  using kinds = std::variant<linear, conv, max_pool, avg_pool, flatten, layernorm, rmsnorm, groupnorm, batchnorm, dropout,
                             embedding, positions, attention, lstm, gru, head, residual, repeat, end, activate>;
  template <class Kind>
  requires std::constructible_from<kinds, Kind> any(Kind layer, std::string called = {})
      : kind(std::move(layer)), name(std::move(called)) {}

  kinds kind;
  std::string name;
  /// Names do not count.
  friend bool operator==(const any& a, const any& b) { return a.kind == b.kind; }
};

inline bool operator==(const residual& a, const residual& b) {
  return a.body == b.body;
}
inline bool operator==(const repeat& a, const repeat& b) {
  return a.times == b.times && a.body == b.body;
}

/// Reads one string of a job file's list (see model_spec). The error quotes the text and says what would be right. A line that
/// opens a brace has an empty body.
result<any> parse(std::string_view text);
/// The whole list, with the bodies of what has braces. An error begins with the line's number: `layer 3: ...`.
result<std::vector<any>> parse(const std::vector<std::string>& list);

/// How each layer is written: `"linear N [act]", ...`.
std::string described();
/// Every first word, and the others that lines may have, for corrections.
std::vector<std::string> all_words();

} // namespace troupe::layers
