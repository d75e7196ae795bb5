// SPDX-License-Identifier: BSD-3-Clause
// The likely name behind a misspelt one.
#include "apps/config/suggest.hpp"

#include <algorithm>
#include <cctype>

namespace troupe::config {

namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = cost[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      cost[i][j] = std::min({substituted, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

std::string nearest(std::string_view misspelt, const std::vector<std::string>& names) {
  // A name of a thousand letters is no typing error, and the table above is quadratic.
  constexpr std::size_t longest = 64;
  if (misspelt.empty() || misspelt == "\"\"" || misspelt.size() > longest)
    return {};
  std::string best;
  std::size_t least = std::max<std::size_t>(1, misspelt.size() / 3) + 1;
  for (const std::string& name : names) {
    std::size_t distance = edit_distance(misspelt, name);
    if (misspelt.size() >= 3 && name.size() >= 3 && (name.starts_with(misspelt) || misspelt.starts_with(name)))
      distance = std::min<std::size_t>(distance, 1);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& likely) {
  return likely.empty() ? "" : "; did you mean " + likely + "?";
}

} // namespace troupe::config
