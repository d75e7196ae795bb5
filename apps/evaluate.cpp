// SPDX-License-Identifier: BSD-3-Clause
// `troupe evaluate`: saved weights on a job's test data.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/evaluation.hpp"
#include "apps/job_setup.hpp"
#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

int execute(const evaluate_options& options) {
  const auto prepared = prepare_job(options.job);
  if (!prepared)
    return refuse(prepared.error());
  const model& network = prepared->network;
  const auto queue = kernels::open_backend({.device = "cpu", .threads = prepared->config.job.compute.threads});
  const auto metadata = read_safetensors_metadata(options.weights);
  if (!metadata)
    return refuse({{{"--weights", metadata.error().message}}});
  if (const auto why = other_model(*metadata, prepared->config.job); !why.empty())
    return refuse({{{"--weights", fmt::format("{}: {}", options.weights, why)}}});
  if (const auto why = other_vocabulary(*metadata, prepared->data.words.get()); !why.empty())
    return refuse({{{"--weights", fmt::format("{}: {}", options.weights, why)}}});
  if (const auto numbers = other_scaling(*metadata, prepared->data.scaling); !numbers.empty())
    fmt::print(
        stderr,
        "troupe: {} was trained on data of {}: these scale the test data here, so its figures are not those of its own data\n",
        options.weights, numbers);
  const auto parameters = queue->allocate(static_cast<std::size_t>(network.layout().floats()) * sizeof(float));
  if (const auto loaded = load_safetensors(options.weights, network.layout(), parameters.as<float>()); !loaded)
    return refuse({{{"--weights", loaded.error().message}}});
  const auto outcome =
      evaluate_model(network, parameters.as<const float>(), prepared->data.test, *queue, prepared->config.job.data.piece_rows());
  if (!outcome) {
    fmt::print(stderr, "troupe: {}\n", outcome.error().message);
    return exit_failed;
  }
  const std::string digest = weights_digest(network.layout(), parameters.as<const float>());
  if (options.json)
    print_json({{"job", prepared->config.job.name},
                {"weights", options.weights},
                {"weights_digest", digest},
                {"samples", outcome->samples},
                {"test_loss", outcome->loss},
                {"test_accuracy", outcome->accuracy},
                {"version", TROUPE_VERSION}});
  else
    fmt::print("test accuracy {:.4f}, test loss {:.4f} over {} samples (weights {})\n", outcome->accuracy, outcome->loss,
               outcome->samples, digest);
  return exit_done;
}

} // namespace troupe::apps
