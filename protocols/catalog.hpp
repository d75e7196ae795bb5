// SPDX-License-Identifier: BSD-3-Clause
// The catalog: every named protocol is a line: worker, rule, parameters.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

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
};

/// One protocol.
struct catalog_entry {
  std::string name{};
  std::string summary{};       ///< one line for `troupe protocols`
  std::string round_is_full{}; ///< when is a round full, with what weights
  std::string who_gets{};      ///< who gets parameters, when
  bool per_push = false;       ///< runs at every shard, each push alone
  bool takes_fan_in = false;
  std::vector<parameter_info> parameters{};
  std::function<std::unique_ptr<rule>(const protocol_spec&, std::uint64_t seed)> make_rule{};
  std::function<std::unique_ptr<worker>(const protocol_spec&, member self)> make_worker{};
};

/// All protocols, in the order in which they are listed for people. Built on each call.
std::vector<catalog_entry> catalog();
/// Names that are designed but not built yet, so that a job that asks for one is told so.
std::span<const std::string_view> announced();

/// What is wrong with a spec, as sentences with a remedy; empty: nothing.
std::vector<std::string> check(const catalog_entry& entry, const protocol_spec& spec, std::uint32_t workers);

} // namespace troupe::protocols
