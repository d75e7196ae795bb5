// SPDX-License-Identifier: BSD-3-Clause
// Labels at the ends of curves: one after the other takes the cheapest of a few places.
#include "apps/plot/plot_labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace troupe::apps {

namespace {

constexpr double line_height = 15, gap = 9;

/// Points along the lines, dense enough that no label fits between two.
std::vector<pixel> samples_of(const std::vector<std::vector<pixel>>& lines) {
  constexpr double spacing = 5;
  std::vector<pixel> samples;
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) {
      const pixel to = line[i], from = i == 0 ? to : line[i - 1];
      const int steps = std::clamp(static_cast<int>(std::hypot(to.x - from.x, to.y - from.y) / spacing), 1, 500);
      for (int s = 1; s <= steps; ++s)
        samples.push_back({from.x + (to.x - from.x) * s / steps, from.y + (to.y - from.y) * s / steps});
    }
  return samples;
}

/// The preferred height of each label: its end's, pushed apart where ends that are neighbours in x are closer than a line.
/// Isotonic regression by pooling adjacent violators (Ayer et al. 1955) moves them least, in squares.
std::vector<double> wished_heights(const std::vector<end_label>& labels, const std::vector<std::size_t>& from_top,
                                   const box& area) {
  constexpr double neighbours = 60;
  std::vector<double> wished(labels.size());
  std::vector<bool> done(labels.size());
  for (const std::size_t first : from_top) {
    if (done[first])
      continue;
    std::vector<std::size_t> group;
    for (const std::size_t i : from_top)
      if (!done[i] && std::abs(labels[i].end.x - labels[first].end.x) < neighbours)
        group.push_back(i);
    struct pool {
      double sum = 0;
      int count = 0;
      double mean() const { return sum / count; }
    };
    std::vector<pool> pools;
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      pools.push_back({labels[group[rank]].end.y - static_cast<double>(rank) * line_height, 1});
      while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
        const pool last = pools.back();
        pools.pop_back();
        pools.back().sum += last.sum;
        pools.back().count += last.count;
      }
    }
    const double lowest = area.bottom - line_height / 2 - static_cast<double>(group.size() - 1) * line_height;
    std::size_t rank = 0;
    for (const pool& p : pools)
      for (int k = 0; k < p.count; ++k, ++rank) {
        const double base = std::max(std::min(p.mean(), lowest), area.top + line_height / 2);
        wished[group[rank]] = base + static_cast<double>(rank) * line_height;
        done[group[rank]] = true;
      }
  }
  return wished;
}

/// The boxes that a label may take: right of its end, then left, each up and down by lines.
std::vector<box> candidates(const end_label& label, double wished, const box& area) {
  std::vector<box> boxes;
  const auto lines = static_cast<int>((area.bottom - area.top) / line_height);
  for (const bool right : {true, false})
    for (int i = -lines; i <= lines; ++i) {
      const double left = right ? label.end.x + gap : label.end.x - gap - label.width;
      const double top = wished - line_height / 2 + i * line_height / 2;
      const box b{left, top, left + label.width, top + line_height};
      if (b.left >= area.left && b.right <= area.right && b.top >= area.top && b.bottom <= area.bottom)
        boxes.push_back(b);
    }
  if (boxes.empty()) // too long for any place
    boxes.push_back({area.left, area.top, area.left + label.width, area.top + line_height});
  return boxes;
}

/// What labels should not cover.
struct obstacles {
  std::vector<pixel> samples; ///< of lines
  std::vector<box> ends;      ///< the marks at the ends
  std::vector<box> labels;    ///< placed so far
};

double misplacement_of(const box& b, const end_label& label, double wished, const obstacles& others) {
  constexpr double covers_label = 1e6, covers_end = 40, covers_sample = 6, leftwards = 20;
  const auto overlapping = [&](const std::vector<box>& boxes) {
    return static_cast<double>(std::count_if(boxes.begin(), boxes.end(), [&](const box& o) { return b.overlaps(o); }));
  };
  const auto covered = std::count_if(others.samples.begin(), others.samples.end(), [&](const pixel& p) { return b.holds(p); });
  return std::abs((b.top + b.bottom) / 2 - wished) + (b.left < label.end.x ? leftwards : 0)
         + covers_label * overlapping(others.labels) + covers_end * overlapping(others.ends)
         + covers_sample * static_cast<double>(covered);
}

} // namespace

std::vector<box> place_labels(const std::vector<end_label>& labels, const std::vector<std::vector<pixel>>& lines,
                              const box& area) {
  obstacles others{samples_of(lines), {}, {}};
  for (const end_label& label : labels)
    others.ends.push_back({label.end.x - gap / 2, label.end.y - gap / 2, label.end.x + gap / 2, label.end.y + gap / 2});
  // From the top: neighbours then keep the order of their ends.
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return labels[a].end.y < labels[b].end.y; });
  const std::vector<double> wished = wished_heights(labels, order, area);
  std::vector<box> boxes(labels.size());
  for (const std::size_t i : order) {
    double least = std::numeric_limits<double>::infinity();
    for (const box& b : candidates(labels[i], wished[i], area))
      if (const double cost = misplacement_of(b, labels[i], wished[i], others); cost < least) {
        least = cost;
        boxes[i] = b;
      }
    others.labels.push_back(boxes[i]);
  }
  return boxes;
}

} // namespace troupe::apps
