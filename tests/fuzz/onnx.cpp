// SPDX-License-Identifier: BSD-3-Clause
// ONNX files.
#include "tensor/model.hpp"
#include "tensor/onnx/export.hpp"
#include "tensor/onnx/file.hpp"
#include "tensor/onnx/import.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

namespace {

const data_format& onnx_images() {
  static const data_format of{{2, 8, 8}, 3};
  return of;
}
const data_format& onnx_ids() {
  static const data_format of{{6}, 11, dtype::i32, 11, {6}};
  return of;
}

void import_into(const data_format& format, const onnx::document& read) {
  layers::builder built{format};
  if (const auto added = onnx::add_graph(built, read); !added)
    must(!added.error().message.empty(), "what is refused says why");
  else
    static_cast<void>(built.finish({}));
}

} // namespace

int fuzz_onnx(const std::uint8_t* data, std::size_t size) {
  const auto read = onnx::read_bytes(data, size, own_folder());
  if (!read) {
    must(!read.error().message.empty(), "what is refused says why");
    return 0;
  }
  import_into(onnx_images(), *read);
  import_into(onnx_ids(), *read);
  return 0;
}

std::vector<input> onnx_corpus() {
  std::vector<input> out;
  const auto add = [&out](const std::vector<std::string>& layers, const data_format& format) {
    const auto net = model::build(model_spec{layers}, format);
    must(net.has_value(), "the corpus' models fit");
    std::vector<float> flat(static_cast<std::size_t>(net->layout().floats()));
    initialize_parameters(net->layout(), 1, flat.data());
    const auto written = onnx::export_model(*net, flat.data(), "net");
    must(written.has_value(), "the corpus' models can be exported");
    if (const auto bytes = onnx::to_bytes(*written)) // else this build has no libonnx
      out.push_back(bytes_of(*bytes));
  };
  add({"conv 4 3x3 groups 2", "batchnorm", "relu", "pool 2", "flatten", "dropout 0.1", "linear 3"}, onnx_images());
  add({"embedding 4", "positions", "residual {", "layernorm", "attention 2 causal", "}", "linear 11 gelu-erf"}, onnx_ids());
  add({"embedding 4", "lstm 3", "gru 3", "linear 11"}, onnx_ids());
  return out.empty() ? std::vector<input>{{8, 8}} : out;
}

} // namespace troupe::fuzz
