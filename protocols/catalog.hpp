// SPDX-License-Identifier: BSD-3-Clause
// The catalog: every named protocol is a line: rule, worker, controller, parameters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocols/coded.hpp"
#include "protocols/controller.hpp"
#include "protocols/rule.hpp"
#include "protocols/worker.hpp"

namespace troupe::protocols {

/// One parameter of a protocol.
struct parameter_info {
  std::string name{};
  spec_value default_value{};
  std::string meaning{};
  /// Returns what is wrong with the value ("must be at least 1"), or an empty string.
  std::function<std::string(const spec_value&)> check;
  /// Where the default hangs on what else is given: what it is then. Absent: always `default_value`.
  std::function<spec_value(const protocol_spec&)> default_with{};

  spec_value default_for(const protocol_spec& spec) const { return default_with ? default_with(spec) : default_value; }
};

/// One protocol.
struct catalog_entry {
  std::string name{};
  std::string summary{};       ///< one line for `troupe protocols`
  std::string round_is_full{}; ///< when is a round full, with what weights
  std::string who_gets{};      ///< who gets parameters, when
  bool per_push = false;       ///< runs at every shard, each push alone
  bool takes_fan_in = false;
  bool centreless = false; ///< the parameters are the workers' own; the shard hands out the first ones and counts
  std::vector<parameter_info> parameters{};
  /// What is wrong with parameters taken together, or with so many workers; an empty string: nothing. Absent: nothing to check.
  std::function<std::string(const protocol_spec&, std::uint32_t workers)> check{};
  std::function<std::unique_ptr<rule>(const protocol_spec&, std::uint64_t seed)> make_rule{};
  std::function<std::unique_ptr<worker>(const protocol_spec&, member self, std::uint64_t seed)> make_worker{};
  /// Absent: nothing changes while the job runs.
  std::function<std::unique_ptr<controller>(const protocol_spec&)> make_controller{};
};

/// All protocols, in the order in which they are listed for people. Built on each call.
std::vector<catalog_entry> catalog();
/// Names that are designed but not built yet, so that a job that asks for one is told so.
std::span<const std::string_view> announced();

/// The entry of this name, of the catalog or among those that a program has added to it; or nothing.
std::optional<catalog_entry> find_protocol(const std::string& name, std::span<const catalog_entry> added = {});

/// What is wrong with a spec, as sentences with a remedy; empty: nothing.
std::vector<std::string> check(const catalog_entry& entry, const protocol_spec& spec, std::uint32_t workers);

/// The first plan's protocol: the spec itself; of auto the first candidate.
protocol_spec initial_protocol(const protocol_spec& spec);
/// Local steps between communications that the first plan has.
std::uint32_t initial_period(const protocol_spec& spec);
/// Pushes that close a round of backup workers, of n live ones.
std::size_t backup_quorum(const protocol_spec& spec, std::size_t n);
coded_options coded_options_of(const protocol_spec& spec);

} // namespace troupe::protocols
