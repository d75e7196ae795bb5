// SPDX-License-Identifier: BSD-3-Clause
// `troupe predict`: what a model says of samples from a .npy file.
#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/flags.hpp"
#include "apps/job_setup.hpp"
#include "apps/prediction.hpp"
#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "tensor/data/npy.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

/// y = (x - mean) / deviation as the weights' metadata say, element i of a row by pair i / inner; without, x itself.
class input_scaling {
public:
  /// An error where the pairs do not fit the samples.
  static result<input_scaling> of(const data_scaling& how, const stored_array& input) {
    input_scaling out;
    const auto pairs = std::ssize(how.mean);
    if (how.mean.empty())
      return out;
    const bool pixels = how.pair_of == "channel";
    const bool fits =
        pixels ? pairs == 1 || (input.extents.size() == 4 && pairs == input.extents[1]) : pairs == input.row_elements();
    if (!fits || how.deviation.size() != how.mean.size())
      return input.fail(fmt::format("its rows have {} numbers, and the weights' mean and deviation are of {} {}s",
                                    input.row_elements(), pairs, how.pair_of));
    out.inner_ = input.row_elements() / pairs;
    const double unit = pixels && input.type == array_type::U8 ? 255 : 1;
    for (std::size_t i = 0; i < how.mean.size(); ++i)
      out.pairs_.emplace_back(static_cast<float>(how.mean[i] * unit), static_cast<float>(1 / (how.deviation[i] * unit)));
    return out;
  }

  void apply(std::span<float> rows) const {
    const auto row = std::ssize(pairs_) * inner_;
    for (std::size_t i = 0; row > 0 && i < rows.size(); ++i) {
      const auto& [mean, factor] = pairs_[static_cast<std::size_t>(static_cast<std::int64_t>(i) % row / inner_)];
      rows[i] = (rows[i] - mean) * factor;
    }
  }

private:
  std::vector<std::pair<float, float>> pairs_;
  std::int64_t inner_ = 1;
};

/// Reads the rows from `begin` on to where samples go.
result<void> fill(const stored_array& input, const data_format& format, std::int64_t begin, std::int64_t rows,
                  const input_scaling& scaling, void* samples) {
  const auto elements = format.sample.elements();
  const auto count = static_cast<std::size_t>(rows * elements);
  if (format.type == dtype::f32) {
    const std::span x(static_cast<float*>(samples), count);
    auto read = input.read(begin * elements, x);
    scaling.apply(x);
    return read;
  }
  const std::span ids(static_cast<std::int32_t*>(samples), count);
  if (auto read = input.read(begin * elements, ids); !read)
    return read;
  const auto wrong = std::ranges::find_if(ids, [&](std::int32_t id) { return id < 0 || id >= format.ids; });
  return wrong == ids.end() ? result<void>{}
                            : input.fail(fmt::format("element {} is {}, and the model's ids are 0 to {}",
                                                     begin * elements + (wrong - ids.begin()), *wrong, format.ids - 1));
}

} // namespace

job_command predict_command(predict_options& into) {
  return {"predict",
          "Write what a model says of the samples in a file",
          "troupe predict config/quickstart.toml --weights digits.safetensors --input x.npy --output y.npy",
          {required_text("--weights", "FILE.safetensors", "a file of run --save", into.weights),
           required_text("--input", "FILE.npy", "an array of samples (rows, sample): raw, for it is scaled as the job's data are",
                         into.input),
           required_text("--output", "FILE.npy", "file to write: the model's last layer (rows, classes), say, as float32",
                         into.output)}};
}

int execute(const predict_options& options) {
  const auto prepared = prepare_job(options.job);
  if (!prepared)
    return refuse(prepared.error());
  const model& network = prepared->network;
  const data_format& format = prepared->data.train->format();
  const auto metadata = read_safetensors_metadata(options.weights);
  if (!metadata)
    return refuse({{{"--weights", metadata.error().message}}});
  for (const auto& why : {other_model(*metadata, prepared->config.job), other_vocabulary(*metadata, prepared->data.words.get())})
    if (!why.empty())
      return refuse({{{"--weights", fmt::format("{}: {}", options.weights, why)}}});
  const auto input = open_npy(options.input);
  if (!input)
    return refuse({{{"--input", input.error().message}}});
  if (input->extents.empty() || std::vector(input->extents.begin() + 1, input->extents.end()) != format.sample.extents()
      || input->rows() < 1)
    return refuse(
        {{{"--input", input
                          ->fail(fmt::format("is {}, and samples are (rows, {}); give one row at least",
                                             shape{input->extents}.to_string(), fmt::join(format.sample.extents(), ", ")))
                          .message}}});
  const auto scaling = input_scaling::of(scaling_of_weights(*metadata, prepared->data.scaling), *input);
  if (!scaling)
    return refuse({{{"--input", scaling.error().message}}});
  if (const auto why = cannot_write(options.output); !why.empty())
    return refuse({{{"--output", why}}});
  const auto queue = kernels::open_backend({.device = "cpu", .threads = prepared->config.job.compute.threads});
  const auto rows_at_once = std::min(input->rows(), prepared->config.job.data.batch);
  auto opened = predictor::open(network, options.weights, *queue, rows_at_once);
  if (!opened)
    return refuse({{{"--weights", opened.error().message}}});
  std::vector<float> all;
  for (std::int64_t begin = 0; begin < input->rows(); begin += rows_at_once) {
    const auto rows = std::min(rows_at_once, input->rows() - begin);
    if (const auto filled = fill(*input, format, begin, rows, *scaling, opened->samples()); !filled)
      return refuse({{{"--input", filled.error().message}}});
    const auto some = opened->predict(rows);
    all.insert(all.end(), some.begin(), some.end());
  }
  auto extents = network.forward().at(network.predictions()).dims.extents();
  extents.insert(extents.begin(), input->rows());
  if (const auto saved = save_npy(options.output, extents, all); !saved) {
    fmt::print(stderr, "troupe: {}\n", saved.error().message);
    return exit_failed;
  }
  if (options.json)
    print_json({{"job", prepared->config.job.name},
                {"weights", options.weights},
                {"output", options.output},
                {"shape", boost::json::value_from(extents)},
                {"version", TROUPE_VERSION}});
  else
    fmt::print("{}: predictions {} of {} samples\n", options.output, shape{extents}.to_string(), input->rows());
  return exit_done;
}

} // namespace troupe::apps
