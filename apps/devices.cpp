// SPDX-License-Identifier: BSD-3-Clause
// `troupe devices`: what can compute here.
#include <cstdio>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/report.hpp"
#include "kernels/backend.hpp"

namespace troupe::apps {

int devices_command(const devices_options& options) {
  const auto devices = kernels::list_devices();
  std::vector<std::vector<std::string>> rows{{"device", "usable", "what"}};
  boost::json::array list;
  for (const kernels::device_info& d : devices) {
    rows.push_back({d.name, d.usable ? "yes" : "no", d.usable ? d.detail : d.detail + " (" + d.reason + ")"});
    list.push_back({{"name", d.name},
                    {"detail", d.detail},
                    {"usable", d.usable},
                    {"reason", d.reason.empty() ? boost::json::value{} : boost::json::value(d.reason)}});
  }
  if (options.json)
    print_json({{"devices", std::move(list)}});
  else
    fmt::print("{}", table(rows));
  return exit_done;
}

} // namespace troupe::apps
