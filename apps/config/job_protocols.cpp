// SPDX-License-Identifier: BSD-3-Clause
// Parameters of protocols, as the catalog lists them.
#include "apps/config/job_draft.hpp"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "apps/config/spec_text.hpp"
#include "apps/config/suggest.hpp"
#include "protocols/catalog.hpp"

namespace troupe::config {

namespace {

using protocols::parameter_info;
using protocols::protocol;
using protocols::spec_value;

/// `from` as a value of the kind that `like` holds.
std::optional<spec_value> as_spec_value(const toml_value& from, const spec_value& like) {
  if (std::holds_alternative<double>(like))
    if (const auto* whole_number = std::get_if<std::int64_t>(&from.held))
      return static_cast<double>(*whole_number);
  if (std::holds_alternative<std::vector<std::string>>(like)) {
    const reading read = read_value(from, text_list{});
    return read.wrong.empty() ? std::optional<spec_value>(std::get<std::vector<std::string>>(read.accepted)) : std::nullopt;
  }
  return std::visit(
      [&](const auto& kind) -> std::optional<spec_value> {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (!std::is_same_v<Kind, std::vector<std::string>>)
          if (const auto* same = std::get_if<Kind>(&from.held))
            return *same;
        return std::nullopt;
      },
      like);
}

std::string_view kind_name(const spec_value& v) {
  constexpr std::array<std::string_view, 5> names{"true or false", "a whole number", "a number", "a text", "a list of texts"};
  return names[v.index()];
}

std::string unknown_parameter(const std::vector<protocol>& catalog, const protocol& entry, const assignment& a) {
  std::vector<std::string> own;
  for (const auto& p : entry.parameters)
    own.push_back(p.name);
  if (entry.takes_fan_in)
    own.emplace_back("fan_in");
  if (a.section == "protocol")
    own.emplace_back("name");
  if (const std::string likely = nearest(a.name, own); !likely.empty())
    return fmt::format("unknown key {}; did you mean {}.{}?", a.full_name(), a.section, likely);
  for (const protocol& other : catalog)
    if (find_named(other.parameters, a.name) != nullptr)
      return fmt::format("{} is a parameter of {}, not of {}; put it into [protocol.{}]", a.name, other.name, entry.name,
                         other.name);
  return own.empty() ? fmt::format("unknown key {}; {} takes no parameters", a.full_name(), entry.name)
                     : fmt::format("unknown key {}; {} takes {}", a.full_name(), entry.name, fmt::join(own, ", "));
}

} // namespace

std::optional<spec_value> read_parameter_value(job_draft& draft, const parameter_info& parameter, const assignment& a) {
  const auto read = as_spec_value(a.given, parameter.default_value);
  const std::string wrong = !read                ? fmt::format("is {}; it takes {}, such as {}", type_name(a.given),
                                                               kind_name(parameter.default_value), to_text(as_value(parameter.default_value)))
                            : parameter.validate ? parameter.validate(*read)
                                                 : "";
  if (wrong.empty())
    return read;
  draft.refused.insert(a.full_name());
  // Some complaints begin with the wrong value, or the wrong part of it.
  draft.problems.add(a.value_at, wrong.starts_with('"') ? fmt::format("{}: {}", a.full_name(), wrong)
                                                        : fmt::format("{} = {} {}", a.full_name(), to_text(a.given), wrong));
  return std::nullopt;
}

namespace {

void read_parameter(job_draft& draft, const std::vector<protocol>& catalog, const protocol& entry, protocols::protocol_spec& spec,
                    const assignment& a) {
  if (a.name == "fan_in" && entry.takes_fan_in) {
    if (a.unset)
      return;
    const reading read = read_value(a.given, fan_in_domain());
    if (!read.wrong.empty()) {
      draft.problems.add(a.value_at, fmt::format("{} = {} {}", a.full_name(), to_text(a.given), read.wrong));
      return;
    }
    if (&spec != &draft.out.job.protocol || draft.given.emplace("protocol.fan_in", a.value_at).second)
      spec.fan_in = static_cast<std::uint32_t>(std::get<std::int64_t>(read.accepted));
    return;
  }
  const parameter_info* parameter = find_named(entry.parameters, a.name);
  if (parameter == nullptr) {
    draft.problems.add(a.key_at, unknown_parameter(catalog, entry, a));
    return;
  }
  if (a.unset)
    return;
  const auto read = read_parameter_value(draft, *parameter, a);
  if (!read)
    return;
  if (spec.parameters.emplace(a.name, *read).second && &spec == &draft.out.job.protocol)
    draft.given.emplace("protocol." + a.name, a.value_at);
}

text protocol_names(const std::vector<protocol>& catalog) {
  text names;
  for (const auto& entry : catalog)
    names.choices.push_back(entry.name);
  return names;
}

void refuse_protocol(job_draft& draft, const std::vector<protocol>& catalog, const std::string& name) {
  const place at = draft.sections.contains("protocol." + name) ? draft.sections.at("protocol." + name)
                                                               : draft.parameters.at(name).front().key_at;
  const reading read = read_value({name, {}}, protocol_names(catalog));
  draft.problems.add(at, fmt::format("the protocol of [protocol.{}] {}", name, read.wrong));
}

/// Reads the file's parameters of all protocols; those beside protocol.name belong to the job's protocol.
void read_given(job_draft& draft, const std::vector<protocol>& catalog, const protocol* own) {
  // Parameters beside protocol.name come first: they win over a table of the same protocol.
  for (const auto& [name, assignments] : draft.parameters) {
    const protocol* entry = name.empty() ? own : find_named(catalog, name);
    if (entry == nullptr) {
      if (!name.empty())
        refuse_protocol(draft, catalog, name);
      continue;
    }
    protocols::protocol_spec& spec = entry == own ? draft.out.job.protocol : draft.out.further_protocols[name];
    spec.name = entry->name;
    for (const assignment& a : assignments)
      read_parameter(draft, catalog, *entry, spec, a);
  }
}

/// Makes `entry` the job's protocol, with the file's parameters for it.
void switch_protocol(job_draft& draft, const protocol& entry) {
  protocols::protocol_spec& own = draft.out.job.protocol;
  if (own.name == entry.name)
    return;
  protocols::protocol_spec before = std::exchange(own, {});
  if (auto table = draft.out.further_protocols.extract(entry.name))
    own = std::move(table.mapped());
  own.name = entry.name;
  draft.out.further_protocols.emplace(before.name, std::move(before));
  std::erase_if(draft.given, [](const auto& g) { return g.first.starts_with("protocol."); });
  if (const auto table = draft.parameters.find(entry.name); table != draft.parameters.end())
    for (const assignment& a : table->second)
      draft.given.emplace("protocol." + a.name, a.value_at);
}

/// Replaces the job's protocol by the one that compare asks for, "local:steps=5". Returns its entry, or null where it is unknown.
const protocol* choose(job_draft& draft, const std::vector<protocol>& catalog, const std::string& asked) {
  const place at{{0, 0}, "--protocols " + asked, 1};
  const std::vector<std::string> parts = split_outside_brackets(asked, ':');
  const protocol* entry = find_named(catalog, parts.front());
  if (entry == nullptr) {
    const reading read = read_value({parts.front(), {}}, protocol_names(catalog));
    draft.problems.add(at, fmt::format("protocol.name = \"{}\" {}", parts.front(), read.wrong));
    return nullptr;
  }
  switch_protocol(draft, *entry);
  draft.given["protocol.name"] = at;
  protocols::protocol_spec& own = draft.out.job.protocol;
  std::set<std::string> seen;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto pair = parse_pair(parts[i]);
    if (!pair || !seen.insert(pair->key).second) {
      draft.problems.add(at, fmt::format("\"{}\" is not key=value, or repeats a key; parameters follow the name as in "
                                         "local:steps=5",
                                         parts[i]));
      continue;
    }
    own.parameters.erase(pair->key); // this value wins over the file's
    draft.given.erase("protocol." + pair->key);
    read_parameter(draft, catalog, *entry, own, {"protocol", pair->key, pair->value, at, at});
  }
  return entry;
}

} // namespace

void read_protocols(job_draft& draft, const std::string& asked) {
  const std::vector<protocol> catalog = protocols::catalog(draft.out.added.protocols);
  protocols::protocol_spec& own = draft.out.job.protocol;
  const protocol* chosen = draft.unclear("protocol.name") ? nullptr : find_named(catalog, own.name);
  read_given(draft, catalog, chosen);
  if (!asked.empty())
    chosen = choose(draft, catalog, asked);
  if (chosen == nullptr)
    return;
  if (!chosen->takes_fan_in && draft.has("protocol.fan_in")) {
    draft.refuse("protocol.fan_in", fmt::format("{} takes no protocol.fan_in: it has no aggregators; leave it out", own.name));
    draft.refused.insert("protocol.fan_in");
  }
  if (!chosen->takes_fan_in)
    draft.idle.insert("protocol.fan_in");
}

void complete_protocol(job_draft& draft) {
  const std::vector<protocol> catalog = protocols::catalog(draft.out.added.protocols);
  protocols::protocol_spec& own = draft.out.job.protocol;
  const protocol* chosen = draft.unclear("protocol.name") ? nullptr : find_named(catalog, own.name);
  if (chosen != nullptr)
    for (const auto& parameter : chosen->parameters)
      own.parameters.emplace(parameter.name, parameter.default_for(own));
}

} // namespace troupe::config
