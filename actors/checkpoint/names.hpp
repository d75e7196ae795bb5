// SPDX-License-Identifier: BSD-3-Clause
// The names of a checkpoint's files, and what more than one source says of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/parse_number.hpp"

namespace troupe::actors {

inline constexpr const char* manifest_name = "manifest";
/// While it is written.
inline constexpr const char* unfinished_manifest = "manifest.new";
/// In a shard's file: what its workers had of the parameters, and of which version.
inline constexpr const char* image_name = "image";
inline constexpr const char* image_version_name = "image.version";
/// In a worker's: its own parameters, and its dual variable.
inline constexpr const char* replica_name = "replica";
inline constexpr const char* dual_name = "dual";
/// There, where no two workers have the same parameters: the weight of its own in their mean, the bits of a double, and its place
/// in the data.
inline constexpr const char* weight_name = "weight.float64";
inline constexpr const char* position_name = "position";
/// There, where a version is made while local steps go on: what is known of those that are in no version yet.
inline constexpr const char* open_samples_name = "open.samples";
inline constexpr const char* open_loss_name = "open.loss.float64";
inline constexpr const char* open_ignored_name = "open.ignored.float64";
inline constexpr const char* open_not_finite_name = "open.not_finite";
/// In a shard's; where only workers have parameters, their mean.
inline constexpr const char* parameters_name = "parameters";

/// Why a checkpoint lacks the file of a role.
inline constexpr const char* lost_unwritten = "it was lost before it was written";

/// 40 of "step-40" where `before` is "step-"; none where the name has another form: "step-040".
template <class Number>
std::optional<Number> number_in(std::string_view name, std::string_view before, std::string_view after = "") {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return std::nullopt;
  name = name.substr(before.size(), name.size() - before.size() - after.size());
  const auto number = parse_number<Number>(std::string(name));
  return number && std::to_string(*number) == name ? number : std::nullopt;
}

/// "shard-3.ckpt".
inline bool is_shard_name(std::string_view name) {
  return number_in<std::uint32_t>(name, "shard-", ".ckpt").has_value();
}

/// 3 of "worker-3-0.ckpt"; behind it stands which of its lives wrote the file.
inline std::optional<std::uint32_t> worker_in(std::string_view name) {
  const auto dash = name.rfind('-');
  if (dash == std::string_view::npos || !number_in<std::uint32_t>(name.substr(dash), "-", ".ckpt"))
    return std::nullopt;
  return number_in<std::uint32_t>(name.substr(0, dash), "worker-");
}

inline bool is_state_name(std::string_view name) {
  return is_shard_name(name) || worker_in(name);
}

} // namespace troupe::actors
