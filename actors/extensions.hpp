// SPDX-License-Identifier: BSD-3-Clause
// Models, data sources and protocols that a program adds to Troupe's own: plain values, passed on from main.
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

/// The parameters of a model or data source: the job's values, validated, and defaults for the rest. Throws std::logic_error with
/// the name of a parameter that was not declared with this type.
class parameters {
public:
  explicit parameters(std::map<std::string, protocols::spec_value> values) : values_(std::move(values)) {}

  bool boolean(const std::string& name) const { return get<bool>(name); }
  std::int64_t integer(const std::string& name) const { return get<std::int64_t>(name); }
  double number(const std::string& name) const { return get<double>(name); }
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
  /// The same model for the same arguments, in every process of a job. Its predictions fit the
  /// data's labels: logits (rows, classes) for one label a row.
  std::function<result<model>(const actors::parameters&, const data_format& data)> build{};
};

/// `[data] source = NAME` of a job file.
struct data_source {
  std::string name{};
  std::string summary{};
  std::vector<protocols::parameter_info> parameters{}; ///< further keys of [data]
  /// The same samples for the same arguments: every process of a job loads its own. May take long; any thread.
  /// tensor/data/memory_set.hpp makes data sets from numbers in memory.
  std::function<result<data_pair>(const actors::parameters&, std::uint64_t seed)> load{};
};

/// Everything that a program has added.
struct extensions {
  std::vector<model_kind> models{};
  std::vector<data_source> sources{};
  std::vector<protocols::protocol> protocols{};
};

/// The kinds of networks that Troupe has (tensor/models.hpp), with their keys, then those that were added. The former have no
/// `build`: `build_model` knows them.
std::vector<model_kind> model_kinds(const extensions& added);

/// The names of everything added: `model "tapered"`, `data source "spirals"`, `protocol "majority"`.
std::vector<std::string> names_of(const extensions& added);
/// Names in the job that neither Troupe nor `added` has, in the same form.
std::vector<std::string> missing_names(const job& job, const extensions& added);

/// The job's data and model, from `added` if the job names one of those. An exception from their functions becomes an error.
result<data_pair> load_data(const job& job, const extensions& added);
/// The model is whole: what the optimizer's keys say of its parameters is done, and its statistics fit the protocol.
result<model> build_model(const job& job, const data_format& data, const extensions& added);

} // namespace troupe::actors
