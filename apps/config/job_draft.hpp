// SPDX-License-Identifier: BSD-3-Clause
// A job file on its way to a job: shared by reading, the rules between keys and the listing of values. Private to this folder.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/config/job_file.hpp"
#include "apps/config/key.hpp"
#include "apps/config/place.hpp"

namespace troupe::config {

/// Every key of a job file except the parameters of protocols, which the catalog lists, and of extensions; in the order of the
/// documentation.
std::vector<key_info<loaded_job>> job_keys(const actors::extensions& added);
/// Those of [inject].
void add_inject_keys(std::vector<key_info<loaded_job>>& keys);
/// One key in the list for users: two lines, with the values that it accepts.
std::string describe_key(const std::string& name, const std::string& accepts, const std::string& meaning);

/// `key = value` somewhere.
struct assignment {
  std::string section, name;
  toml_value given;
  place key_at, value_at;
  bool unset = false; ///< by `--set KEY=`: as if it had not been given
  std::string full_name() const { return section.empty() ? name : section + "." + name; }
};

/// Of one job.
inline constexpr std::int64_t most_workers = 10'000;

/// What protocol.fan_in takes.
inline integer_or_word fan_in_domain() {
  return {{0, 1024}, "node", protocols::fan_in_of_nodes};
}

struct job_draft {
  explicit job_draft(const std::string& file) : problems(file) { out.file = file; }

  loaded_job out;
  problem_list problems;
  std::map<std::string, place> sections;    ///< those that the file has
  std::map<std::string, place> given;       ///< keys with an accepted value: where the value stands
  std::set<std::string> refused;            ///< keys with a value that was refused
  std::set<std::string> suggested;          ///< keys and sections that a misspelt one was likely meant for
  std::map<std::string, std::string> from;  ///< keys whose value was derived, and their source
  std::map<std::string, std::string> unset; ///< keys that the command line unsets, and the flag that does
  std::set<std::string> idle;               ///< keys that do not apply to this job
  /// Parameters of protocols by name, those beside `protocol.name` under "".
  std::map<std::string, std::vector<assignment>> parameters;
  std::vector<assignment> injected; ///< inject.straggler, inject.link, inject.fault: each a table, a SPEC or a list of them

  bool has(const std::string& key) const { return given.contains(key); }
  /// Given and refused, or likely meant by a misspelt key. Complaints that depend on it would repeat the same mistake.
  bool unclear(const std::string& key) const { return refused.contains(key) || suggested.contains(key); }
  /// Where `key` was given, else its section, else the top of the file.
  place place_of(const std::string& key) const;
  void refuse(const std::string& key, std::string message) { problems.add(place_of(key), std::move(message)); }
  /// Whether the file gives `key`, and the command line a `choice` that makes it meaningless.
  bool lost_to(const std::string& key, const std::string& choice) const;
  /// Gives such a key its default again, with a note that says `why`.
  void leave_out(const std::string& key, const std::string& why);
};

/// The [[node]] of a file that is a cluster's, not a job's; else null.
const toml_entry* node_of_cluster(const toml_table& document);

/// Reads assignments of the file and of the command line into the draft, each checked alone.
void read_assignments(job_draft& draft, const toml_table& document, const std::vector<setting>& sets);

/// Refuses an unknown key; suggests a likely one, or lists all.
void refuse_key(job_draft& draft, const std::vector<key_info<loaded_job>>& keys, const assignment& a);

/// The value of a parameter; nothing where it is refused, with the reason in the draft.
std::optional<protocols::spec_value> read_parameter_value(job_draft& draft, const protocols::parameter_info& parameter,
                                                          const assignment& a);

/// Reads the keys of [model] and [data] that job_keys lacks: parameters of extensions.
void read_own(job_draft& draft, std::vector<assignment> unknown);

/// The rules between keys, and values that are derived from others.
void apply_rules(job_draft& draft);

/// The protocol, parameter, model or data source of this name, or null.
template <class Named>
const Named* find_named(const std::vector<Named>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  return found == all.end() ? nullptr : &*found;
}

/// Reads the protocol's parameters and those of `[protocol.NAME]` tables. `asked`: a protocol that compare asks for instead, or
/// empty.
void read_protocols(job_draft& draft, const std::string& asked);
/// Sets the protocol's parameters that were not given.
void complete_protocol(job_draft& draft);

/// How many workers each node has, where all nodes are alike: as `run` places them. A cluster may place them otherwise.
void derive_blocks(job_draft& draft);

/// The rules between the protocol with its parameters and other keys.
void apply_protocol_rules(job_draft& draft);

/// Reads stragglers, link and faults, once the number of workers is known.
void read_inject(job_draft& draft);

/// Fills `out.values`.
void list_values(job_draft& draft);

} // namespace troupe::config
