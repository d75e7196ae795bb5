// SPDX-License-Identifier: BSD-3-Clause
// From TOML and --set to a draft: every key found in the table of keys, every value checked alone.
#include "apps/config/job_draft.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "apps/config/suggest.hpp"

namespace troupe::config {

namespace {

using key_list = std::vector<key_info<loaded_job>>;

std::vector<std::string> section_names(const key_list& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys)
    if (!key.section.empty() && (names.empty() || names.back() != key.section))
      names.push_back(key.section);
  return names;
}

const key_info<loaded_job>* find_key(const key_list& keys, const std::string& section, const std::string& name) {
  const auto it = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.section == section && k.name == name; });
  return it == keys.end() ? nullptr : &*it;
}

/// The key that a misspelt one was likely meant to be: one of its section, or one of the same name elsewhere.
std::string likely_key(const key_list& keys, const std::string& section, const std::string& name) {
  std::vector<std::string> siblings;
  for (const auto& key : keys)
    if (key.section == section && !key.name.empty())
      siblings.push_back(key.name);
  const std::string near = nearest(name, siblings);
  if (!near.empty())
    return section.empty() ? near : section + "." + near;
  const auto elsewhere = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.name == name; });
  return elsewhere == keys.end() ? "" : elsewhere->full_name();
}

/// Assignments in the order given; a later one of the same key replaces the value of the earlier, or stands besides it.
class assignment_list {
public:
  void add(assignment a, bool besides = false) {
    const auto same =
        std::find_if(all_.begin(), all_.end(), [&](const auto& b) { return b.section == a.section && b.name == a.name; });
    if (besides || same == all_.end())
      all_.push_back(std::move(a));
    else
      *same = std::move(a);
  }
  std::vector<assignment> take() { return std::move(all_); }

private:
  std::vector<assignment> all_;
};

place in_file(position at) {
  return {at, "", 0};
}

void refuse_section(job_draft& draft, const key_list& keys, const std::string& name, const place& at) {
  const std::vector<std::string> sections = section_names(keys);
  const std::string likely = nearest(name, sections);
  if (!likely.empty())
    draft.suggested.insert(likely);
  draft.problems.add(at, likely.empty()
                             ? fmt::format("there is no section [{}]; there are [{}]", name, fmt::join(sections, "], ["))
                             : fmt::format("there is no section [{}]; did you mean [{}]?", name, likely));
}

bool is_section(const key_list& keys, const std::string& name) {
  return !name.empty() && std::any_of(keys.begin(), keys.end(), [&](const auto& k) { return k.section == name; });
}

/// The entries of one section of the file; tables inside [protocol] hold another protocol's parameters.
void take_section(job_draft& draft, assignment_list& list, const std::string& section, const toml_entry& table) {
  draft.sections.emplace(section, in_file(table.key_at));
  for (const toml_entry& entry : std::get<toml_table>(table.value.held))
    if (section == "protocol" && std::holds_alternative<toml_table>(entry.value.held)) {
      draft.parameters[entry.key]; // a table without a key names a protocol, too
      take_section(draft, list, section + "." + entry.key, entry);
    } else {
      list.add({section, entry.key, entry.value, in_file(entry.key_at), in_file(entry.value.at)});
    }
}

void take_file(job_draft& draft, const key_list& keys, assignment_list& list, const toml_table& document) {
  for (const toml_entry& entry : document) {
    const place at = in_file(entry.key_at);
    const bool table = std::holds_alternative<toml_table>(entry.value.held);
    if (find_key(keys, entry.key, "") != nullptr) {
      draft.problems.add(at, fmt::format("[{}] is not there yet, it comes later; leave it out", entry.key));
    } else if (table && is_section(keys, entry.key)) {
      take_section(draft, list, entry.key, entry);
    } else if (table) {
      refuse_section(draft, keys, entry.key, at);
    } else {
      list.add({"", entry.key, entry.value, at, in_file(entry.value.at)});
    }
  }
}

void take_settings(job_draft& draft, const key_list& keys, assignment_list& list, const std::vector<setting>& sets) {
  constexpr std::string_view link_prefix = "link."; // --set inject.link.mbit=10
  int turn = 0;
  for (const setting& set : sets) {
    const place at{{0, 0}, set.flag.empty() ? "--set " + set.key : set.flag, ++turn};
    // protocol.NAME.KEY is a key of [protocol.NAME]; everything else has one dot at most.
    const auto dot = set.key.starts_with("protocol.") ? set.key.rfind('.') : set.key.find('.');
    const std::string section = dot == std::string::npos ? "" : set.key.substr(0, dot);
    const std::string name = dot == std::string::npos ? set.key : set.key.substr(dot + 1);
    const std::string root = section.substr(0, section.find('.'));
    if (find_key(keys, dot == std::string::npos ? name : section, "") != nullptr)
      draft.problems.add(at,
                         fmt::format("[{}] is not there yet, it comes later; leave it out", section.empty() ? name : section));
    else if (!section.empty() && !is_section(keys, root))
      refuse_section(draft, keys, section, at);
    else if (section == "inject" && name.starts_with(link_prefix))
      list.add({section, "link", {toml_table{{name.substr(link_prefix.size()), {}, parse_toml_value(set.value)}}, {}}, at, at}, true);
    else
      list.add({section, name, parse_toml_value(set.value), at, at}, set.adds);
  }
}

} // namespace

void refuse_key(job_draft& draft, const key_list& keys, const assignment& a) {
  if (a.section.empty() && is_section(keys, a.name)) {
    draft.problems.add(a.key_at, fmt::format("{0} is a section, not a value; write [{0}] and its keys below it", a.name));
    return;
  }
  const std::string likely = likely_key(keys, a.section, a.name);
  std::string remedy = fmt::format("did you mean {}?", likely);
  if (likely.empty()) {
    std::vector<std::string> siblings;
    for (const auto& key : keys)
      if (key.section == a.section && !key.name.empty() && !std::holds_alternative<later>(key.accepts))
        siblings.push_back(key.name);
    remedy = fmt::format("{} takes {}", a.section.empty() ? "the top of a job file" : "[" + a.section + "]",
                         fmt::join(siblings, ", "));
  } else {
    draft.suggested.insert(likely);
  }
  draft.problems.add(a.key_at, fmt::format("unknown key {}; {}", a.full_name(), remedy));
}

namespace {

void apply(job_draft& draft, const key_info<loaded_job>& key, const assignment& a) {
  if (std::holds_alternative<later>(key.accepts)) {
    draft.problems.add(a.key_at, fmt::format("{} is not there yet, it comes later; leave it out", a.full_name()));
    return;
  }
  const reading read = read_value(a.what, key.accepts);
  if (!read.wrong.empty()) {
    draft.refused.insert(a.full_name());
    draft.problems.add(a.value_at, fmt::format("{} = {} {}", a.full_name(), to_text(a.what), read.wrong));
    return;
  }
  key.set(draft.out, read.what);
  draft.given.emplace(a.full_name(), a.value_at);
}

} // namespace

place job_draft::place_of(const std::string& key) const {
  if (const auto it = given.find(key); it != given.end())
    return it->second;
  const auto section = sections.find(key.substr(0, key.find('.')));
  return section != sections.end() ? section->second : place{};
}

void read_assignments(job_draft& draft, const toml_table& document, const std::vector<setting>& sets) {
  const key_list keys = job_keys(draft.out.added);
  assignment_list list;
  take_file(draft, keys, list, document);
  take_settings(draft, keys, list, sets);
  constexpr std::string_view prefix = "protocol.";
  std::vector<assignment> unknown;
  for (assignment& a : list.take()) {
    const auto* key = find_key(keys, a.section, a.name);
    if (a.section.starts_with(prefix))
      draft.parameters[a.section.substr(prefix.size())].push_back(std::move(a));
    else if (a.section == "protocol" && key == nullptr)
      draft.parameters[""].push_back(std::move(a));
    else if (key == nullptr)
      unknown.push_back(std::move(a));
    else if (std::holds_alternative<tables>(key->accepts))
      draft.injected.push_back(std::move(a));
    else
      apply(draft, *key, a);
  }
  read_own(draft, unknown);
}

} // namespace troupe::config
