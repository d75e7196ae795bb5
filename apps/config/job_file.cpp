// SPDX-License-Identifier: BSD-3-Clause
// Job files: TOML and --set in, a job with every value resolved out.
#include "apps/config/job_file.hpp"

#include <algorithm>

#include "apps/config/job_draft.hpp"

namespace troupe::config {

checked<setting> parse_setting(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    return refusal{{{"--set " + argument, "is no key=value; write --set data.batch=64"}}};
  const std::string key = argument.substr(0, equals);
  return setting{key, argument.substr(equals + 1), "--set " + key};
}

checked<loaded_job> load_job(const std::string& path, const std::vector<setting>& sets, const std::string& protocol,
                             const actors::extensions& added) {
  const auto document = parse_config_file(path);
  if (!document)
    return document.error();
  job_draft draft(path);
  draft.out.added = added;
  read_assignments(draft, *document, sets);
  read_protocols(draft, protocol);
  apply_rules(draft);
  check_protocol(draft);
  apply_protocol_rules(draft);
  read_inject(draft);
  if (!draft.problems.empty())
    return draft.problems.take();
  list_values(draft);
  constexpr int classes_unless_csv = 10;
  if (draft.out.job.data.source != "csv" && draft.out.job.own_data.name.empty())
    complete_model(draft.out, classes_unless_csv);
  return std::move(draft.out);
}

void complete_model(loaded_job& loaded, int classes) {
  if (loaded.model_kind != "mlp")
    return;
  loaded.job.model.layers = mlp_layers({loaded.hidden.begin(), loaded.hidden.end()}, classes);
  const auto layers =
      std::find_if(loaded.values.begin(), loaded.values.end(), [](const auto& v) { return v.key == "model.layers"; });
  layers->what = loaded.job.model.layers;
  layers->from = "model.kind";
}

} // namespace troupe::config
