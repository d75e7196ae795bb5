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

/// Where a value was given to a whole section: the key that it was likely meant for. One with choices, else the first that takes
/// it.
std::string key_for(const key_list& keys, const std::string& section, const toml_value& content) {
  const auto takes = [&](const auto& key) { return key.section == section && read_value(content, key.accepts).wrong.empty(); };
  const auto chooses = [&](const auto& key) {
    const auto* names = std::get_if<text>(&key.accepts);
    return takes(key) && names != nullptr && !names->choices.empty();
  };
  auto meant = std::ranges::find_if(keys, chooses);
  if (meant == keys.end())
    meant = std::ranges::find_if(keys, takes);
  return meant == keys.end() ? "" : meant->full_name();
}

/// The key that a misspelt one was likely meant for: one of its section, or one of the same name in another.
std::string likely_key(const key_list& keys, const std::string& section, const std::string& name) {
  const std::string near = nearest(name, names_in(keys, section));
  if (!near.empty())
    return section.empty() ? near : section + "." + near;
  const auto elsewhere = std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.name == name; });
  return elsewhere == keys.end() ? "" : elsewhere->full_name();
}

/// Assignments in the order given. A later one of the same key replaces the earlier value, or is added to it.
class assignment_list {
public:
  void add(assignment a, bool besides = false) {
    const auto same =
        std::find_if(all_.begin(), all_.end(), [&](const auto& b) { return b.section == a.section && b.name == a.name; });
    if (a.unset)
      std::erase_if(all_, [&](const auto& b) { return b.section == a.section && b.name == a.name; });
    if (besides || a.unset || same == all_.end())
      all_.push_back(std::move(a));
    else
      *same = std::move(a);
  }
  const assignment* find(const std::string& section, const std::string& name) const {
    const auto it = std::ranges::find_if(all_, [&](const auto& a) { return a.section == section && a.name == name; });
    return it == all_.end() ? nullptr : &*it;
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
      draft.parameters[entry.key]; // a table without keys names a protocol too
      take_section(draft, list, section + "." + entry.key, entry);
    } else {
      list.add({section, entry.key, entry.value, in_file(entry.key_at), in_file(entry.value.at)});
    }
}

void take_file(job_draft& draft, const key_list& keys, assignment_list& list, const toml_table& document) {
  for (const toml_entry& entry : document) {
    const place at = in_file(entry.key_at);
    const bool table = std::holds_alternative<toml_table>(entry.value.held);
    if (table && is_section(keys, entry.key)) {
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
    if (!section.empty() && !is_section(keys, root))
      refuse_section(draft, keys, section, at);
    else if (section == "inject" && name.starts_with(link_prefix))
      list.add({section, "link", {toml_table{{name.substr(link_prefix.size()), {}, parse_toml_value(set.value)}}, {}}, at, at},
               true);
    else {
      const bool unset = set.value.empty() && !set.adds;
      // what `--set KEY=` unsets needs no note
      if (const assignment* was = list.find(section, name);
          unset && !at.flag.starts_with("--set ") && was != nullptr && !was->unset)
        draft.out.left_out.push_back({draft.problems.where(was->key_at), fmt::format("{} = {} is left out: {} does without it",
                                                                                     set.key, to_text(was->given), at.flag)});
      list.add({section, name, parse_toml_value(set.value), at, at, unset}, set.adds);
    }
  }
}

} // namespace

const toml_entry* node_of_cluster(const toml_table& document) {
  const auto node = std::ranges::find(document, "node", &toml_entry::key);
  return node != document.end() && is_list_of_tables(node->value) ? &*node : nullptr;
}

void refuse_key(job_draft& draft, const key_list& keys, const assignment& a) {
  if (a.section.empty() && is_section(keys, a.name)) {
    const std::string meant = a.key_at.flag.empty() ? "" : key_for(keys, a.name, a.given);
    draft.problems.add(a.key_at, a.key_at.flag.empty()
                                     ? fmt::format("{0} is a section, not a value; write [{0}] and its keys below it", a.name)
                                 : meant.empty() ? fmt::format("{0} is a section, not a value; write --set {0}.KEY=VALUE", a.name)
                                                 : fmt::format("{} is a section, not a value; did you mean --set {}={}?", a.name,
                                                               meant, as_argument(a.given)));
    return;
  }
  const std::string likely = likely_key(keys, a.section, a.name);
  std::string remedy = fmt::format("did you mean {}?", likely);
  if (likely.empty()) {
    std::vector<std::string> siblings;
    for (const auto& key : keys)
      if (key.section == a.section && !key.name.empty())
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
  if (a.unset) {
    draft.unset.emplace(a.full_name(), a.key_at.flag);
    return;
  }
  const reading read = read_value(a.given, key.accepts);
  if (!read.wrong.empty()) {
    draft.refused.insert(a.full_name());
    draft.problems.add(a.value_at, fmt::format("{} = {} {}", a.full_name(), to_text(a.given), read.wrong));
    return;
  }
  key.set(draft.out, read.accepted);
  draft.given.emplace(a.full_name(), a.value_at);
}

} // namespace

place job_draft::place_of(const std::string& key) const {
  if (const auto it = given.find(key); it != given.end())
    return it->second;
  const auto section = sections.find(key.substr(0, key.find('.')));
  return section != sections.end() ? section->second : place{};
}

bool job_draft::lost_to(const std::string& key, const std::string& choice) const {
  const auto kept = given.find(key), chosen = given.find(choice);
  return kept != given.end() && kept->second.flag.empty() && chosen != given.end() && !chosen->second.flag.empty();
}

void job_draft::leave_out(const std::string& key, const std::string& why) {
  const key_list keys = job_keys(out.added);
  const auto info = std::ranges::find(keys, key, [](const auto& k) { return k.full_name(); });
  out.left_out.push_back(
      {problems.where(place_of(key)), fmt::format("{} = {} is left out: {}", key, to_text(info->get(out)), why)});
  info->set(out, info->get(loaded_job{}));
  given.erase(key);
}

namespace {

/// Where two keys set the same thing, the command line's counts.
void leave_out_replaced(job_draft& draft) {
  struct replacement {
    std::string choice;
    std::vector<std::string> instead_of;
  };
  std::vector<replacement> all{{"model.layers", {"model.kind", "model.hidden", "model.onnx"}},
                               {"model.kind", {"model.layers", "model.onnx"}},
                               {"model.onnx", {"model.kind", "model.hidden", "model.layers"}},
                               {"evaluate.every_s", {"evaluate.every_samples"}},
                               {"evaluate.every_samples", {"evaluate.every_s"}},
                               {"checkpoint.every_s", {"checkpoint.every_steps"}},
                               {"checkpoint.every_steps", {"checkpoint.every_s"}},
                               {"codec.budget_mbit", {"codec.density", "codec.warmup_steps"}},
                               {"codec.density", {"codec.budget_mbit"}}};
  if (draft.out.model_kind != "mlp")
    all.push_back({"model.kind", {"model.hidden"}});
  for (const auto& [choice, instead_of] : all)
    for (const std::string& key : instead_of)
      if (draft.lost_to(key, choice))
        draft.leave_out(key, fmt::format("{} takes its place", draft.given.at(choice).flag));
}

/// Parameters beside the file's protocol.name belong to that protocol, not to another that the command line names.
void move_parameters(job_draft& draft, std::vector<assignment>& all, const std::string& files_protocol) {
  const auto is_name = [](const assignment& a) { return a.full_name() == "protocol.name"; };
  const auto named = std::ranges::find_if(all, is_name);
  const auto* name = named == all.end() ? nullptr : std::get_if<std::string>(&named->given.held);
  if (name == nullptr || named->key_at.flag.empty() || named->unset || *name == files_protocol)
    return;
  const std::string now = *name, named_by = named->key_at.flag;
  const auto begin = std::stable_partition(all.begin(), all.end(),
                                           [](const auto& a) { return a.section != "protocol" || !a.key_at.flag.empty(); });
  for (auto a = begin; a != all.end(); ++a) {
    draft.out.left_out.push_back({draft.problems.where(a->key_at),
                                  fmt::format("{} = {} is left out: it belongs to protocol.name = \"{}\", and {} is \"{}\"",
                                              a->full_name(), to_text(a->given), files_protocol, named_by, now)});
    a->section += "." + files_protocol;
  }
  if (protocols::find_protocol(files_protocol, draft.out.added.protocols))
    std::rotate(all.begin(), begin, all.end()); // they win over a table of that protocol
  else
    all.erase(begin, all.end());
}

/// The protocol that the file names, whatever the command line says.
std::string protocol_of(const assignment_list& file) {
  const assignment* name = file.find("protocol", "name");
  const auto* text = name == nullptr ? nullptr : std::get_if<std::string>(&name->given.held);
  return text == nullptr ? protocols::protocol_spec{}.name : *text;
}

} // namespace

void read_assignments(job_draft& draft, const toml_table& document, const std::vector<setting>& sets) {
  const key_list keys = job_keys(draft.out.added);
  assignment_list list;
  take_file(draft, keys, list, document);
  const std::string files_protocol = protocol_of(list);
  take_settings(draft, keys, list, sets);
  std::vector<assignment> all = list.take();
  move_parameters(draft, all, files_protocol);
  constexpr std::string_view prefix = "protocol.";
  std::vector<assignment> unknown;
  for (assignment& a : all) {
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
  std::erase_if(draft.injected, [](const assignment& a) { return a.unset; });
  leave_out_replaced(draft);
  read_own(draft, unknown);
}

} // namespace troupe::config
