// SPDX-License-Identifier: BSD-3-Clause
// `troupe devices`: the devices of this host.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/report.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

namespace {

boost::json::object listed_device_json(const kernels::device_info& d) {
  return {{"name", d.name},
          {"detail", d.detail},
          {"usable", d.usable},
          {"reason", value_or_null(!d.reason.empty(), d.reason)},
          {"memory_bytes", value_or_null(d.memory_bytes != 0, d.memory_bytes)},
          {"free_bytes", value_or_null(d.free_bytes != 0, d.free_bytes)},
          {"capability", value_or_null(!d.capability.empty(), d.capability)},
          {"driver", value_or_null(!d.driver.empty(), d.driver)}};
}

std::vector<std::string> as_row(const kernels::device_info& d) {
  const auto size = [](std::uint64_t bytes) { return bytes == 0 ? std::string{} : bytes_text(static_cast<double>(bytes)); };
  return {d.name, d.usable ? "yes" : "no", size(d.memory_bytes), size(d.free_bytes), d.capability, d.driver, d.detail};
}

} // namespace

/// A device that cannot be used is not a failure of the command; the reason follows the table.
int print_devices(const plain_options& options) {
  const auto devices = kernels::list_devices();
  if (options.json) {
    boost::json::array list;
    for (const kernels::device_info& d : devices)
      list.push_back(listed_device_json(d));
    print_json({{"devices", std::move(list)}});
    return exit_done;
  }
  std::vector<std::vector<std::string>> rows{{"device", "usable", "memory", "free", "capability", "driver", "what"}};
  for (const kernels::device_info& d : devices)
    rows.push_back(as_row(d));
  fmt::print("{}", table(rows));
  for (const kernels::device_info& d : devices)
    if (!d.usable)
      fmt::print("{} cannot be used: {}\n", d.name, d.reason);
  return exit_done;
}

} // namespace troupe::apps
