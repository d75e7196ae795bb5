// SPDX-License-Identifier: BSD-3-Clause
// Names of devices, compared.
#include "actors/node/node_devices.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::actors {

std::vector<std::string> matching_devices(const std::vector<std::string>& listed, const std::string& wanted) {
  std::vector<std::string> found;
  if (listed.empty())
    found = {wanted};
  else if (wanted == "cuda")
    std::ranges::copy_if(listed, std::back_inserter(found), [](const std::string& name) { return name.starts_with("cuda"); });
  else if (std::ranges::any_of(listed,
                               [&](const std::string& name) { return name == wanted || (name == "cuda" && wanted != "cpu"); }))
    found = {wanted};
  return found;
}

bool takes_shards(const std::vector<std::string>& listed, const std::string& wanted) {
  return wanted == "cpu" || !matching_devices(listed, wanted).empty();
}

} // namespace troupe::actors
