// SPDX-License-Identifier: BSD-3-Clause
// A custom data source and model: spirals in the plane, and a perceptron that narrows from layer to layer.
#include "apps/application.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "protocols/parameters.hpp"
#include "tensor/data/memory_set.hpp"
#include "tensor/data/random_stream.hpp"

namespace {

using namespace troupe;

/// Points on spirals around one centre; which arm a point is on is its label. `half` tells the training set's noise from the test
/// set's.
labelled_rows draw(const parameters& given, std::int64_t samples, std::uint64_t seed, std::uint32_t half) {
  const auto arms = static_cast<std::int32_t>(given.integer("arms"));
  random_stream chance{{.seed = seed, .stream = half}};
  labelled_rows rows{.columns = 2, .classes = arms, .values = {}, .labels = {}};
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto arm = static_cast<std::int32_t>(i % arms);
    const float way = std::sqrt(chance.uniform(0, 1)); // from the centre, 0, to the end
    const float angle = 2 * std::numbers::pi_v<float> * (way + static_cast<float>(arm) / static_cast<float>(arms));
    for (const float on_arm : {way * std::cos(angle), way * std::sin(angle)})
      rows.values.push_back(on_arm + static_cast<float>(given.number("noise")) * chance.bell());
    rows.labels.push_back(arm);
  }
  return rows;
}

result<data_pair> spirals(const parameters& given, std::uint64_t seed) {
  const auto samples = given.integer("samples");
  return make_table_pair({.train = draw(given, samples, seed, 0), .test = draw(given, samples / 4, seed, 1)});
}

/// Layers of `width`, `width` / 2 and so on down to `narrowest`; then one output per class.
result<model> tapered(const parameters& given, const data_format& data) {
  if (given.integer("narrowest") > given.integer("width"))
    return error{errc::bad_model, "model.narrowest is more than model.width; then there is no layer"};
  std::vector<layers::any> list{layers::flatten{}};
  for (auto units = given.integer("width"); units >= given.integer("narrowest"); units /= 2)
    list.push_back(layers::linear{units, kernels::activation::tanh});
  list.push_back(layers::linear{data.classes});
  return model::build(list, data);
}

} // namespace

int main(int argc, char** argv) {
  application app;
  app.add_data({.name = "spirals",
                .summary = "points on spirals around one centre",
                .parameters = {protocols::integer_parameter("arms", 3, 2, "how many spirals, each a class"),
                               protocols::integer_parameter("samples", 6000, 100, "how many points are drawn for training"),
                               protocols::real_parameter("noise", 0.03, {.least = 0}, "how far a point is off its arm")},
                .load = spirals});
  app.add_model({.name = "tapered",
                 .summary = "a perceptron that narrows from layer to layer",
                 .parameters = {protocols::integer_parameter("width", 64, 2, "units of the first layer"),
                                protocols::integer_parameter("narrowest", 16, 2, "the least number of units of the last layer")},
                 .build = tapered});
  return app.main(argc, argv);
}
