// SPDX-License-Identifier: BSD-3-Clause
// The import's inside: what is known of each value of a file, and what operators make of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/builder.hpp"
#include "tensor/graph.hpp"
#include "tensor/onnx/document.hpp"
#include "tensor/onnx/known.hpp"

namespace troupe::onnx {

/// What a name of the file stands for.
struct imported {
  enum class kind : std::uint8_t {
    absent,   ///< an input that is left out
    constant, ///< known before anything runs
    weight,   ///< an initializer of floats: a parameter as soon as it is read as a tensor
    tensor,   ///< a value of the graph
    refused,  ///< of a node that cannot be imported: an error if anything that stays in the model reads it
  } is = kind::absent;
  std::shared_ptr<const known> array{};
  std::size_t initializer = 0; ///< of a weight: its place in the file
  value_id id = value_id::none;
  /// The place of the rows among the file's axes, which our values have first; -1: it has none.
  int batch_axis = -1;
  std::string name{}, why{};
  const node* made_by = nullptr; ///< of a tensor without rows: what may tell its numbers, where they follow from initializers
};

/// One of the file's axes of a value.
struct axis_extent {
  std::int64_t extent = 0;
  bool rows = false;
};

/// Makes a graph of a document's nodes, all of them, one by one; what fusion leaves behind and what nobody reads is left out when
/// the graph is copied. Errors inside are exceptions (misfit), kept with the results of the node.
class importer {
public:
  importer(const data_format& data, document& from);
  /// Reads all nodes. A sentence for what is wrong with the file as a whole; empty: nothing.
  std::string read_nodes();
  const imported& result_of(const std::string& name) const { return values_.at(name); }
  /// Copies what leads to `last` into the builder.
  result<value_id> copy_into(layers::builder& b, value_id last);

  // -- for operators

  using outputs = std::vector<imported>;
  struct call {
    importer& in;
    const node& n;
    const std::vector<imported>& inputs;
    std::size_t count() const;
    bool has(std::size_t i) const;
    const imported& at(std::size_t i) const;
    /// An input as a tensor; a weight becomes a parameter, a constant one that is not trained.
    imported tensor(std::size_t i) const;
    /// An input that is known, weights too; misfit where it is not.
    known array(std::size_t i) const;
    /// The same as whole numbers, or an attribute where the input is left out.
    std::optional<std::vector<std::int64_t>> integers(std::size_t input, const std::string& attribute) const;
    std::optional<double> uniform(std::size_t i) const;
  };
  using handler = outputs (*)(const call&);

  graph& scratch() { return graph_; }
  const graph& scratch() const { return graph_; }
  const data_format& data() const { return data_; }
  std::int64_t declared_rows() const { return declared_rows_; }

  value_id apply(ops::any op, std::vector<value_id> inputs);
  std::vector<value_id> apply_all(ops::any op, std::vector<value_id> inputs);
  static imported tensor_value(value_id id, int batch_axis);
  value_id constant(double value, shape dims = {});
  imported as_tensor(const imported& v);
  /// A tensor's too, if it follows from initializers: a mask that is a buffer of the module, say.
  std::optional<known> as_known(const imported& v, int depth = 0) const;
  /// The same, ready to be counted in.
  imported constant_value(known array);
  /// A parameter that is not trained.
  value_id frozen(const std::string& name, const shape& dims, std::vector<float> values);
  void mark_statistic(value_id parameter);
  std::uint32_t next_stream() { return streams_++; }

  const shape& dims(value_id v) const { return graph_.at(v).dims; }
  std::vector<axis_extent> axes(const imported& v) const;
  std::size_t rank(const imported& v) const { return axes(v).size(); }
  /// An axis of the file as one of our value; misfit where it is the rows.
  std::size_t own_axis(const imported& v, std::int64_t axis) const;
  /// Equal arrangements are left out, and those of one another joined.
  value_id reshaped(value_id v, shape dims);
  value_id permuted(value_id v, std::vector<std::size_t> axes);
  /// Part `index` of an axis cut at [begin, begin + length).
  value_id cut(value_id v, std::size_t axis, std::int64_t begin, std::int64_t length);
  /// The node that made v as its first result, where it is of this kind; else null.
  template <class Op>
  const Op* made_by(value_id v) const {
    const auto& producer = graph_.producer(v);
    return producer.outputs[0] == v ? std::get_if<Op>(&producer.op) : nullptr;
  }
  value_id input_of(value_id v, std::size_t i = 0) const { return graph_.producer(v).inputs[i]; }
  /// The number that a value of one constant is.
  std::optional<double> constant_number(value_id v) const;

  /// A mask that is added before a softmax: what it was added to, and whether it hides what comes later and nothing else.
  struct masked_value {
    value_id from{};
    bool causal = false;
  };
  std::map<value_id, masked_value> masked;

private:
  struct slot {
    std::string name;
    shape dims;
    std::shared_ptr<const std::vector<float>> values;
    slot_kind kind = slot_kind::trained;
    std::size_t order = 0; ///< in the model: the initializers', then the others'
    value_id parameter{};
  };

  outputs read_node(const node& n);
  outputs run(const node& n, const std::vector<imported>& inputs);
  std::string begin();
  value_id add_slot(slot of);

  data_format data_;
  document& from_;
  graph graph_;
  std::vector<slot> slots_;
  std::map<std::string, imported> values_;
  std::map<std::size_t, value_id> parameters_; ///< by initializer
  std::int64_t declared_rows_ = -1;
  double known_elements_ = 0;
  mutable double looked_up_ = 0; ///< elements that as_known has computed: a bound on its time
  std::uint32_t streams_ = 0;
  std::string layer_;
};

/// The operators that are not folded. Null: unknown.
importer::handler operator_named(const std::string& type);
std::vector<std::string> handled_operators();

// -- families of operators, each in a file of its own
struct named_handler {
  const char* type;
  importer::handler run;
};
std::vector<named_handler> arithmetic_operators();
std::vector<named_handler> arrangement_operators();
std::vector<named_handler> layer_operators();
std::vector<named_handler> recurrent_operators();

// -- fusion (patterns.cpp): what the value may be instead, none where it is no such pattern

/// Of a product, for GELU and SiLU.
value_id as_activation(importer& in, value_id product);
/// Of x + beta.
value_id as_layernorm(importer& in, value_id sum);
/// Of a batched product whose left side is a softmax's: (rows, heads, T, head).
value_id as_attention(importer& in, value_id product);

} // namespace troupe::onnx
