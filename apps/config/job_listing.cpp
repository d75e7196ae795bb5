// SPDX-License-Identifier: BSD-3-Clause
// Keys and values as lists: what there is, what a job resolved to, where each value came from.
#include "apps/config/job_draft.hpp"

#include <algorithm>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace troupe::config {

namespace {

/// Where a value came from, for people.
std::string origin(const job_draft& draft, const std::string& key, bool nothing) {
  if (draft.idle.contains(key))
    return "does not apply";
  if (const auto it = draft.given.find(key); it != draft.given.end()) {
    const place& p = it->second;
    return p.flag.empty() ? fmt::format("job file line {}", p.at.line) : p.flag.substr(0, p.flag.find(' '));
  }
  const auto derived = draft.from.find(key);
  return derived != draft.from.end() ? derived->second : nothing ? "not given" : "default";
}

} // namespace

void list_values(job_draft& draft) {
  const auto add = [&](const std::string& key, value resolved) {
    std::string from = origin(draft, key, std::holds_alternative<std::monostate>(resolved));
    draft.out.values.push_back({key, std::move(resolved), std::move(from), draft.problems.where(draft.place_of(key))});
  };
  for (const auto& key : job_keys(draft.out.added)) {
    const std::string name = key.full_name();
    const bool nothing = draft.idle.contains(name) || (key.optional && !draft.has(name) && !draft.from.contains(name));
    add(name, nothing ? value{} : key.get(draft.out));
    const auto* own = name == "protocol.fan_in" ? &draft.out.job.protocol.parameters
                      : name == "data.source"   ? &draft.out.job.own_data.parameters
                      : name == "model.kind"    ? &draft.out.job.own_model.parameters
                                                : nullptr;
    if (own != nullptr)
      for (const auto& [parameter, v] : *own)
        add(key.section + "." + parameter, as_value(v));
  }
}

key_facts facts_of_key(const std::string& key) {
  key_facts out;
  for (const auto& each : job_keys({}))
    if (each.full_name() == key) {
      out.meaning = each.meaning;
      if (const auto* one_of = std::get_if<text>(&each.accepts))
        out.choices = one_of->choices;
    }
  return out;
}

std::string where_of(const loaded_job& loaded, const std::string& key) {
  const auto it = std::find_if(loaded.values.begin(), loaded.values.end(), [&](const auto& v) { return v.key == key; });
  return it == loaded.values.end() ? loaded.file : it->where;
}

boost::json::object to_json(const loaded_job& loaded) {
  boost::json::object config;
  for (const resolved_value& v : loaded.values) {
    const auto dot = v.key.find('.');
    if (dot == std::string::npos) {
      config[v.key] = to_json(v.resolved);
      continue;
    }
    boost::json::value& section = config[v.key.substr(0, dot)];
    if (!section.is_object())
      section.emplace_object();
    section.as_object()[v.key.substr(dot + 1)] = to_json(v.resolved);
  }
  return config;
}

std::string describe_key(const std::string& name, const std::string& accepts, const std::string& meaning) {
  return fmt::format("  {:<20} {}\n  {:<20} {}\n", name, accepts, "", meaning);
}

namespace {

/// What a program has added to a section: a line each, and its keys.
template <class Kind>
std::string describe_added(const char* key, const std::vector<Kind>& added) {
  std::string lines;
  for (const Kind& kind : added) {
    lines += fmt::format("  with {} = \"{}\": {}\n", key, kind.name, kind.summary);
    for (const auto& p : kind.parameters)
      lines += describe_key(p.name, fmt::format("default {}", to_text(as_value(p.default_value))), p.meaning);
  }
  return lines;
}

} // namespace

std::string describe_keys(const actors::extensions& added) {
  const loaded_job defaults{};
  std::string lines, section;
  for (const auto& key : job_keys(added)) {
    if (key.section != section) {
      lines += section == "data"    ? describe_added("source", added.sources)
               : section == "model" ? describe_added("kind", actors::model_kinds(added))
                                    : "";
      section = key.section;
      lines += fmt::format("\n[{}]\n", section);
    }
    const std::string initial = key.optional ? "" : fmt::format("; default {}", to_text(key.get(defaults)));
    lines += describe_key(key.name, expected(key.accepts) + initial, key.meaning);
    if (const auto* nested = std::get_if<tables>(&key.accepts))
      for (const table_key& own : nested->keys)
        lines += describe_key("  " + own.name, expected(own.accepts), own.meaning);
  }
  return lines;
}

} // namespace troupe::config
