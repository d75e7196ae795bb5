// SPDX-License-Identifier: BSD-3-Clause
// The digest of the messages: their names in the order of their numbers, and of each its fields, as far as they cross hosts.
#include "actors/messages/dialect.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include <caf/type_id.hpp>
#include <fmt/format.h>

#include "actors/checkpoint/crc32c.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/messages/spelling.hpp"
#include "actors/version.hpp"

namespace troupe::actors {

namespace {

template <caf::type_id_t id>
void add_message(spelling& to) {
  constexpr auto name = caf::type_name_by_id<id>::value;
  to.add({name.data(), name.size()});
  if constexpr (!caf::is_allowed_unsafe_message_type_v<caf::type_by_id_t<id>>)
    to.add<caf::type_by_id_t<id>>();
}

template <caf::type_id_t first, std::size_t... Is>
std::string spelled_from(std::index_sequence<Is...> /*of message types*/) {
  spelling all;
  (add_message<first + Is>(all), ...);
  return all.text();
}

} // namespace

const std::string& message_dialect() {
  static const std::string dialect = [] {
    constexpr auto first = caf::id_block::troupe_inspection::begin, behind = caf::id_block::troupe_cluster::end;
    const auto spelled = spelled_from<first>(std::make_index_sequence<behind - first>());
    return fmt::format("{} (messages {:08x})", version, crc32c(std::as_bytes(std::span(spelled))));
  }();
  return dialect;
}

} // namespace troupe::actors
