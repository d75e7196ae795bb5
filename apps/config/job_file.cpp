// SPDX-License-Identifier: BSD-3-Clause
// Job files: from TOML and --set to a job with every value resolved.
#include "apps/config/job_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/job_check.hpp"
#include "apps/config/job_draft.hpp"

namespace troupe::config {

checked<setting> parse_setting(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    return refusal{{{"--set " + argument, "is not key=value; write --set data.batch=64"}}};
  const std::string key = argument.substr(0, equals);
  return setting{key, argument.substr(equals + 1), "--set " + key};
}

namespace {

/// Asks the layers that will run the job. Complaints that depend on a refused value are dropped.
void ask_layers(job_draft& draft) {
  const auto section_of = [](const std::string& key) { return key.substr(0, key.find('.')); };
  const auto unread = [&](const std::string& section) {
    const auto in_it = [&](const std::string& key) { return section_of(key) == section; };
    return std::ranges::any_of(draft.refused, in_it) || std::ranges::any_of(draft.suggested, in_it);
  };
  if (unread("stop") || unread("cluster"))
    return;
  for (auto& [key, message] : actors::check_job(draft.out.job, draft.out.added)) {
    const std::string section = section_of(key);
    for (const auto& [derived, from] : draft.from)
      if (section_of(derived) == section && message.find(" " + derived.substr(section.size() + 1) + " ") != std::string::npos)
        message += fmt::format(" ({} is {} here)", derived, from);
    if (!unread(section))
      draft.refuse(draft.has(key) ? key : section + ".name", message);
  }
}

} // namespace

checked<loaded_job> load_job(const std::string& path, const std::vector<setting>& sets, const std::string& protocol,
                             const actors::extensions& added) {
  const auto document = parse_config_file(path);
  if (!document)
    return document.error();
  job_draft draft(path);
  draft.out.added = added;
  if (const toml_entry* node = node_of_cluster(*document); node != nullptr) {
    draft.problems.add(
        {node->key_at, "", 0},
        "this is a cluster file: it has [[node]]; give it as --cluster, and here a job file, which has [model] and [stop]");
    return draft.problems.take();
  }
  read_assignments(draft, *document, sets);
  read_protocols(draft, protocol);
  apply_rules(draft);
  complete_protocol(draft);
  apply_protocol_rules(draft);
  read_inject(draft);
  derive_blocks(draft);
  ask_layers(draft);
  if (!draft.problems.empty())
    return draft.problems.take();
  list_values(draft);
  constexpr int classes_of_images = 10;
  const data_spec& data = draft.out.job.data;
  if (data.source != "csv" && !stays_on_disk(data) && draft.out.job.own_data.name.empty())
    complete_model(draft.out, classes_of_images);
  return std::move(draft.out);
}

problems process_limits(const loaded_job& loaded) {
  problems wrong;
  for (auto& [key, message] : actors::check_processes(loaded.job))
    wrong.push_back({where_of(loaded, key), std::move(message)});
  return wrong;
}

void complete_model(loaded_job& loaded, int classes) {
  if (loaded.model_kind != "mlp")
    return;
  loaded.job.model.layers = mlp_layers({loaded.hidden.begin(), loaded.hidden.end()}, classes);
  const auto layers =
      std::find_if(loaded.values.begin(), loaded.values.end(), [](const auto& v) { return v.key == "model.layers"; });
  layers->resolved = loaded.job.model.layers;
  layers->from = "model.kind";
}

} // namespace troupe::config
