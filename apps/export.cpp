// SPDX-License-Identifier: BSD-3-Clause
// `troupe export`: a job's model with saved weights as an ONNX file.
#include <cstring>

#include <fmt/format.h>

#include "apps/flags.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "kernels/backend.hpp"
#include "tensor/onnx/export.hpp"
#include "tensor/onnx/file.hpp"
#include "tensor/safetensors.hpp"
#include "tensor/whole_file.hpp"

namespace troupe::apps {

job_command export_command(export_options& into) {
  return {"export",
          "Write a job's model with saved weights as an ONNX file, opset 17",
          "troupe export config/quickstart.toml --weights digits.safetensors --onnx digits.onnx",
          {required_text("--weights", "FILE.safetensors", "a file of run --save", into.weights),
           required_text("--onnx", "FILE.onnx", "file to write; its input is what the model is trained on: scaled, not raw",
                         into.onnx)}};
}

int execute(const export_options& options) {
  const auto prepared = prepare_job(options.job);
  if (!prepared)
    return refuse(prepared.error());
  const model& network = prepared->network;
  const auto metadata = read_safetensors_metadata(options.weights);
  if (!metadata)
    return refuse({{{"--weights", metadata.error().message}}});
  if (const auto why = other_model(*metadata, prepared->config.job); !why.empty())
    return refuse({{{"--weights", fmt::format("{}: {}", options.weights, why)}}});
  const auto queue = kernels::open_backend({});
  const auto flat = queue->allocate(static_cast<std::size_t>(network.layout().floats()) * sizeof(float));
  std::memset(flat.data(), 0, flat.bytes());
  if (const auto read = load_safetensors(options.weights, network.layout(), flat.as<float>()); !read)
    return refuse({{{"--weights", read.error().message}}});
  const auto written = onnx::export_model(network, flat.as<const float>(), prepared->config.job.name);
  if (!written)
    return refuse({{{"model", written.error().message}}});
  if (const auto why = cannot_write(options.onnx); !why.empty())
    return refuse({{{"--onnx", why}}});
  const auto bytes = onnx::to_bytes(*written);
  if (!bytes) {
    fmt::print(stderr, "troupe: {}\n", bytes.error().message);
    return exit_failed;
  }
  if (const auto failure =
          write_whole_file(options.onnx, [&](const open_file& to) { return to.write_all(bytes->data(), bytes->size()); });
      failure.code != 0) {
    fmt::print(stderr, "troupe: {}: cannot be written: {}\n", options.onnx, std::strerror(failure.code));
    return exit_failed;
  }
  const auto digest = weights_digest(network.layout(), flat.as<const float>());
  if (options.json)
    print_json({{"job", prepared->config.job.name},
                {"weights", options.weights},
                {"onnx", options.onnx},
                {"nodes", written->nodes.size()},
                {"bytes", bytes->size()},
                {"weights_digest", digest},
                {"version", TROUPE_VERSION}});
  else
    fmt::print("{}: {} nodes, weights {}\n", options.onnx, written->nodes.size(), digest);
  return exit_done;
}

} // namespace troupe::apps
