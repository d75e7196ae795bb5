// SPDX-License-Identifier: BSD-3-Clause
// Models and data sources of extensions: their parameters in a job file, and whether they may be added.
#include "apps/config/job_draft.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "apps/config/suggest.hpp"

namespace troupe::config {

namespace {

using key_list = std::vector<key_info<loaded_job>>;
using parameter_list = std::vector<protocols::parameter_info>;

void refuse_parameter(job_draft& draft, const key_list& keys, const std::string& kind, const parameter_list& parameters,
                      const assignment& a) {
  std::vector<std::string> names, siblings = names_in(keys, a.section);
  for (const auto& p : parameters)
    names.push_back(p.name);
  siblings.insert(siblings.end(), names.begin(), names.end());
  const std::string likely = nearest(a.name, siblings);
  draft.problems.add(a.key_at,
                     !likely.empty() ? fmt::format("unknown key {}; did you mean {}.{}?", a.full_name(), a.section, likely)
                     : names.empty() ? fmt::format("unknown key {}; {} takes no parameters", a.full_name(), kind)
                                     : fmt::format("unknown key {}; {} takes {}", a.full_name(), kind, fmt::join(names, ", ")));
}

/// Every parameter of `kind`, given or not.
template <class Kind>
void read_kind(job_draft& draft, const key_list& keys, const Kind& kind, const std::string& section,
               const std::vector<assignment>& given, actors::own_spec& into) {
  into.name = kind.name;
  for (const assignment& a : given) {
    if (a.section != section)
      continue;
    const auto parameter = std::ranges::find(kind.parameters, a.name, &protocols::parameter_info::name);
    if (parameter == kind.parameters.end())
      refuse_parameter(draft, keys, kind.name, kind.parameters, a);
    else if (a.unset)
      continue;
    else if (auto read = read_parameter_value(draft, *parameter, a);
             read && into.parameters.emplace(a.name, std::move(*read)).second)
      draft.given.emplace(a.full_name(), a.value_at);
  }
  for (const auto& parameter : kind.parameters)
    into.parameters.emplace(parameter.name, parameter.default_value);
}

/// Leaves out the file's parameters of a kind that the command line has replaced by another.
template <class Kind>
void leave_out_others(job_draft& draft, std::vector<assignment>& given, const std::string& section,
                      const std::vector<std::string>& choices, const std::vector<Kind>& kinds, const std::string& chosen) {
  const auto takes = [](const Kind& kind, const std::string& name) {
    return std::ranges::find(kind.parameters, name, &protocols::parameter_info::name) != kind.parameters.end();
  };
  const auto choice =
      std::ranges::find_if(choices, [&](const auto& key) { return draft.has(key) && !draft.given.at(key).flag.empty(); });
  if (choice == choices.end())
    return;
  std::erase_if(given, [&](const assignment& a) {
    const auto own = std::ranges::find_if(kinds, [&](const Kind& kind) { return takes(kind, a.name); });
    const bool kept = a.section != section || !a.key_at.flag.empty() || own == kinds.end()
                      || std::ranges::any_of(kinds, [&](const Kind& kind) { return kind.name == chosen && takes(kind, a.name); });
    if (!kept)
      draft.out.left_out.push_back({draft.problems.where(a.key_at),
                                    fmt::format("{} = {} is left out: it belongs to {}, and {} replaces that", a.full_name(),
                                                to_text(a.given), own->name, draft.given.at(*choice).flag)});
    return !kept;
  });
}

/// Checks one name and its parameters; `extension` describes it in messages: "model \"tapered\"".
void check_one(std::vector<std::string>& wrong, const std::string& extension, const std::string& name,
               const std::vector<std::string>& taken, const std::vector<std::string>& keys, const parameter_list& parameters) {
  const auto plain = [](unsigned char c) { return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-' || c == '_'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
    wrong.push_back(fmt::format("{} cannot be added: a name is made of a-z, 0-9, - and _", extension));
  else if (const auto times = std::ranges::count(taken, name); times != 0)
    wrong.push_back(fmt::format("{} cannot be added: there is one of that name already; give it another", extension));
  std::vector<std::string> seen = keys;
  for (const auto& p : parameters) {
    if (std::ranges::count(seen, p.name) != 0)
      wrong.push_back(fmt::format("{} cannot have a parameter \"{}\": there is a key of that name already; give it another",
                                  extension, p.name));
    seen.push_back(p.name);
  }
}

} // namespace

void read_own(job_draft& draft, std::vector<assignment> unknown) {
  const actors::extensions& added = draft.out.added;
  const auto models = actors::model_kinds(added);
  leave_out_others(draft, unknown, "model", {"model.kind", "model.layers"}, models, draft.out.model_kind);
  leave_out_others(draft, unknown, "data", {"data.source"}, added.sources, draft.out.job.data.source);
  const key_list keys = job_keys(added);
  const auto* model = draft.unclear("model.kind") ? nullptr : find_named(models, draft.out.model_kind);
  const auto* source = draft.unclear("data.source") ? nullptr : find_named(added.sources, draft.out.job.data.source);
  if (model != nullptr)
    read_kind(draft, keys, *model, "model", unknown, draft.out.job.own_model);
  if (source != nullptr)
    read_kind(draft, keys, *source, "data", unknown, draft.out.job.own_data);
  // An unknown key beside a refused kind may be its parameter: to refuse it too would repeat the same mistake.
  const bool model_read = model != nullptr || draft.unclear("model.kind");
  const bool data_read = source != nullptr || (!added.sources.empty() && draft.unclear("data.source"));
  for (const assignment& a : unknown)
    if (!(a.section == "model" && model_read) && !(a.section == "data" && data_read))
      refuse_key(draft, keys, a);
}

std::vector<std::string> check_extensions(const actors::extensions& added) {
  std::vector<std::string> wrong;
  const auto check = [&](const char* extension, const std::string& section, const std::string& chooser, const auto& kinds,
                         const auto& complete) {
    const auto all = job_keys({});
    const auto keys = names_in(all, section);
    const auto& names = std::get<text>(find_key(all, section, chooser)->accepts);
    auto taken = names.choices;
    taken.insert(taken.end(), names.planned.begin(), names.planned.end());
    for (const auto& kind : kinds) {
      const std::string named = fmt::format("{} \"{}\"", extension, kind.name);
      check_one(wrong, named, kind.name, taken, keys, kind.parameters);
      taken.push_back(kind.name);
      if (const std::string missing = complete(kind); !missing.empty())
        wrong.push_back(fmt::format("{} cannot be added without {}", named, missing));
    }
  };
  check("model", "model", "kind", added.models, [](const actors::model_kind& k) { return k.build ? "" : "`build`"; });
  check("data source", "data", "source", added.sources, [](const actors::data_source& s) { return s.load ? "" : "`load`"; });
  check("protocol", "protocol", "name", added.protocols,
        [](const protocols::protocol& e) { return e.make_rule && e.make_worker ? "" : "`make_rule` and `make_worker`"; });
  return wrong;
}

} // namespace troupe::config
