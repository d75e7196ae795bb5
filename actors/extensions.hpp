// SPDX-License-Identifier: BSD-3-Clause
// What a program has besides Troupe's own models, data sources and protocols: plain values that travel from its main.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/job.hpp"
#include "protocols/catalog.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"

namespace troupe::actors {

/// The parameters of a model or data source: what the job gives, checked, and the defaults of the rest. Asked for one that is not
/// declared, or declared as something else, it throws std::logic_error with its name.
class parameters {
public:
  explicit parameters(std::map<std::string, protocols::spec_value> values) : values_(std::move(values)) {}

  bool flag(const std::string& name) const { return get<bool>(name); }
  std::int64_t whole(const std::string& name) const { return get<std::int64_t>(name); }
  double real(const std::string& name) const { return get<double>(name); }
  const std::string& text(const std::string& name) const { return get<std::string>(name); }
  const std::vector<std::string>& texts(const std::string& name) const { return get<std::vector<std::string>>(name); }

private:
  template <class T>
  const T& get(const std::string& name) const;

  std::map<std::string, protocols::spec_value> values_;
};

/// `[model] kind = NAME` of a job file.
struct model_kind {
  std::string name{};
  std::string summary{};                               ///< one line for `check --keys`
  std::vector<protocols::parameter_info> parameters{}; ///< further keys of [model]; protocols/parameters.hpp declares them
  /// The same model for the same arguments, in every process of a job. `sample` has no rows; what comes out are `classes` logits.
  std::function<result<model>(const actors::parameters&, const shape& sample, int classes)> build{};
};

/// `[data] source = NAME` of a job file.
struct data_source {
  std::string name{};
  std::string summary{};
  std::vector<protocols::parameter_info> parameters{}; ///< further keys of [data]
  /// The same samples for the same arguments: every process of a job loads its own. May take long; any thread.
  /// tensor/data/memory_set.hpp makes data sets of numbers in memory.
  std::function<result<data_pair>(const actors::parameters&, std::uint64_t seed)> load{};
};

/// Everything that a program has added.
struct extensions {
  std::vector<model_kind> models{};
  std::vector<data_source> sources{};
  std::vector<protocols::protocol> protocols{};
};

/// `model "tapered"`, `data source "spirals"`, `protocol "majority"`: of all that was added.
std::vector<std::string> names_of(const extensions& added);
/// What the job names and neither Troupe nor `added` has, in the same words.
std::vector<std::string> missing_names(const job& what, const extensions& added);

/// The job's data and model, of `added` where the job names one of those. What their functions throw is an error.
result<data_pair> load_data(const job& what, const extensions& added);
result<model> build_model(const job& what, const shape& sample, int classes, const extensions& added);

} // namespace troupe::actors
