// SPDX-License-Identifier: BSD-3-Clause
// Drawing a comparison: legend, panels, curves, labels.
#include "apps/plot/plot.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "apps/plot/plot_axis.hpp"
#include "apps/plot/plot_labels.hpp"
#include "apps/plot/plot_text.hpp"

namespace troupe::apps {

namespace {

constexpr double width = 860, left = 62, right_margin = 16, loss_height = 330, accuracy_height = 230, panel_gap = 44;
constexpr double legend_row = 19, longest_label = 170;

/// Colours that colour-blind readers can tell apart (after Okabe and Ito, 2008), on white and on black.
struct colour_pair {
  const char* light;
  const char* dark;
};
constexpr colour_pair colours[] = {{"#0072b2", "#4f9dff"}, {"#d55e00", "#ff8a4c"}, {"#008f66", "#2cc295"}, {"#b8558f", "#e896c8"},
                                   {"#8a6d00", "#f0c850"}, {"#2f9bd6", "#a5e0ff"}, {"#4a4f57", "#c9ced6"}};
constexpr const char* dashes[] = {"", "7 4", "2 3"};

/// The style of the i-th curve: a colour, and a dash where the colours come round again.
std::string stroke_of(std::size_t i) {
  const char* dash = dashes[i / std::size(colours) % std::size(dashes)];
  return fmt::format("class=\"s{}\"{}", i % std::size(colours),
                     *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}
std::string fill_of(std::size_t i) {
  return fmt::format("class=\"f{}\"", i % std::size(colours));
}

std::string style(std::size_t curves) {
  std::string light, dark;
  for (std::size_t i = 0; i < std::min(curves, std::size(colours)); ++i) {
    light += fmt::format(".s{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, colours[i].light);
    dark += fmt::format(".s{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, colours[i].dark);
  }
  return "<style>text{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif;fill:#2b3036}"
         ".title{font-size:15px;font-weight:600}.dim{fill:#646b75}.page{fill:#fff}.grid{stroke:#e6e9ed}.axis{stroke:#9299a3}"
         ".target{stroke:#646b75;stroke-dasharray:5 4}.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
         ".ring{fill:#fff;stroke-width:2.5;stroke-dasharray:none}.drop{stroke-width:1;stroke-dasharray:2 "
         "3}.lead{stroke-width:1;stroke-dasharray:none;opacity:.6}"
         ".end{stroke:#fff;stroke-width:3.5;stroke-linejoin:round;paint-order:stroke;font-weight:600}"
         + light
         + "@media (prefers-color-scheme:dark){text{fill:#e3e6ea}.dim{fill:#9aa2ad}.page{fill:#14171b}.grid{stroke:#272c33}"
           ".axis{stroke:#5c646f}.target{stroke:#9aa2ad}.ring{fill:#14171b}.end{stroke:#14171b}"
         + dark + "}</style>\n";
}

/// One panel: a quantity against time.
struct panel {
  std::string name;
  double top, height, right;
  axis time, values;
  double curve_point::*quantity;
  std::optional<double> target; ///< a line across

  pixel at(double seconds, double value) const {
    // Far outside is clamped: renderers reject huge numbers.
    constexpr double far = 20;
    return {left + std::clamp(time.share(seconds), -far, far) * (right - left),
            top + height - std::clamp(values.share(value), -far, far) * height};
  }
  bool shows(const curve_point& p) const {
    return std::isfinite(p.seconds) && std::isfinite(p.*quantity) && std::isfinite(values.share(p.*quantity));
  }
  box area() const { return {left, top, width - right_margin, top + height}; }
};

/// The curve's lines: more than one where points are missing.
std::vector<std::vector<pixel>> lines_of(const panel& p, const curve& points) {
  std::vector<std::vector<pixel>> lines(1);
  for (const curve_point& point : points)
    if (p.shows(point))
      lines.back().push_back(p.at(point.seconds, point.*p.quantity));
    else if (!lines.back().empty())
      lines.emplace_back();
  if (lines.back().empty())
    lines.pop_back();
  return lines;
}

/// At most about `most` points: of each bunch of neighbours the highest and the lowest, in their order; the ends stay.
std::vector<pixel> thinned(const std::vector<pixel>& line, std::size_t most) {
  if (line.size() <= most)
    return line;
  std::vector<pixel> kept{line.front()};
  const std::size_t bunch = 2 * (line.size() + most - 1) / most;
  for (auto begin = line.begin() + 1; begin < line.end() - 1;) {
    const auto end = begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(bunch), line.end() - 1 - begin);
    const auto [low, high] = std::minmax_element(begin, end, [](const pixel& a, const pixel& b) { return a.y < b.y; });
    kept.push_back(*std::min(low, high));
    if (low != high)
      kept.push_back(*std::max(low, high));
    begin = end;
  }
  kept.push_back(line.back());
  return kept;
}

/// When a curve reached the target, if it did.
std::optional<double> reached(const plot_curve& c) {
  return c.reached_s && std::isfinite(*c.reached_s) ? c.reached_s : std::nullopt;
}

/// The value of a curve at a time: that of the last evaluation until then.
std::optional<pixel> value_at(const panel& p, const plot_curve& c, double seconds) {
  std::optional<pixel> found;
  for (const curve_point& point : c.points)
    if (p.shows(point) && (!found || point.seconds <= seconds + 1e-9))
      found = p.at(seconds, point.*p.quantity);
  return found;
}

std::string grid(const panel& p, bool with_time_label, const std::string& time_label) {
  std::string out;
  const double bottom = p.top + p.height;
  for (const double tick : p.values.ticks) {
    const double y = p.at(p.time.low, tick).y;
    out += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{:.1f}\"/><text class=\"dim\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}"
        "</text>\n",
        left, y, p.right, left - 8, y + 4, tick);
  }
  for (const double tick : p.time.ticks) {
    const double x = p.at(tick, p.values.low).x;
    out += fmt::format("<path class=\"axis\" d=\"M{0:.1f} {1:.1f}v4\"/><text class=\"dim\" x=\"{0:.1f}\" y=\"{2:.1f}\" "
                       "text-anchor=\"middle\">{3:g}</text>\n",
                       x, bottom, bottom + 17, tick);
  }
  out += fmt::format("<path class=\"axis\" d=\"M{} {:.1f}H{:.1f}\"/>\n", left, bottom, p.right);
  out += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", left, p.top - 9, p.name);
  if (with_time_label)
    out += fmt::format("<text class=\"dim\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", p.right, bottom + 34,
                       xml_text(time_label));
  return out;
}

/// The path of a curve's lines.
std::string path_of(const std::vector<std::vector<pixel>>& lines) {
  std::string path;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : i == 1 ? "L" : " ", line[i].x, line[i].y);
    if (line.size() == 1)
      path += "h0.1"; // a round cap makes it a dot
  }
  return path;
}

/// The names at the ends of curves; `owners[i]` is the curve of label i. A thin line leads to a name that had to move.
std::string names_of(const plot_data& data, const std::vector<end_label>& ends, const std::vector<std::size_t>& owners,
                     const std::vector<box>& places) {
  std::string out;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const box& b = places[i];
    const pixel& end = ends[i].end;
    const double middle = (b.top + b.bottom) / 2;
    constexpr double moved = 9;
    if (std::abs(middle - end.y) > moved)
      out += fmt::format("<g {}><path class=\"lead\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/></g>\n", stroke_of(owners[i]), end.x,
                         end.y, b.left > end.x ? b.left - 1 : b.right + 1, middle);
    out += fmt::format("<text class=\"end f{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", owners[i] % std::size(colours), b.left,
                       middle + 4, xml_text(shortened(data.curves[owners[i]].label, longest_label)));
  }
  return out;
}

/// The curves of one panel: lines inside it, over them where each ends and where it reached the target, and its name.
std::string curves_of(const panel& p, const plot_data& data, std::size_t most_points) {
  const double bottom = p.top + p.height;
  const char* clip = p.target ? "accuracy" : "loss";
  std::string drawn = fmt::format("<clipPath id=\"{0}\"><path d=\"M{1} {2:.1f}H{3:.1f}V{4:.1f}H{1}Z\"/></clipPath>\n<g "
                                  "clip-path=\"url(#{0})\">\n",
                                  clip, left, p.top - 2, p.right + 3, bottom + 1);
  std::string over;
  std::vector<std::vector<pixel>> all;
  std::vector<end_label> ends;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < data.curves.size(); ++i) {
    const plot_curve& c = data.curves[i];
    auto lines = lines_of(p, c.points);
    if (lines.empty())
      continue;
    for (auto& line : lines)
      line = thinned(line, std::max<std::size_t>(4, most_points / lines.size()));
    all.insert(all.end(), lines.begin(), lines.end());
    drawn += fmt::format("<g {}><path class=\"line\" d=\"{}\"/>", stroke_of(i), path_of(lines));
    const pixel end{lines.back().back().x, std::clamp(lines.back().back().y, p.top, bottom)};
    over += fmt::format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", fill_of(i), end.x, end.y);
    if (const auto there = reached(c) ? value_at(p, c, *reached(c)) : std::nullopt) {
      if (!p.target)
        drawn += fmt::format("<path class=\"drop\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>", there->x, there->y, bottom);
      over += fmt::format("<g {}><circle class=\"ring\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"/></g>\n", stroke_of(i), there->x,
                          std::clamp(there->y, p.top, bottom));
    }
    drawn += "</g>\n";
    ends.push_back({end, std::min(text_width(c.label), longest_label)});
    owners.push_back(i);
  }
  return drawn + "</g>\n" + over + names_of(data, ends, owners, place_labels(ends, all, p.area()));
}

/// The legend, in rows from `top` down; `bottom` becomes where it ends.
std::string legend(const plot_data& data, double top, double& bottom) {
  std::string out = "<g id=\"legend\">\n";
  double x = left;
  bottom = top + (data.curves.empty() ? 0 : legend_row);
  for (std::size_t i = 0; i < data.curves.size(); ++i) {
    const plot_curve& c = data.curves[i];
    std::string note;
    if (c.points.empty())
      note = ": no result";
    else if (data.target_accuracy > 0)
      note = reached(c) ? fmt::format(": {:g} after {:.3g} s", data.target_accuracy, *reached(c))
                        : fmt::format(": {:g} not reached", data.target_accuracy);
    constexpr double longest_entry = width - left - right_margin - 40;
    const std::string label = shortened(c.label, longest_entry - text_width(note));
    const double entry = 30 + text_width(label + note) + 18;
    if (x > left && x + entry > width - right_margin) {
      x = left;
      bottom += legend_row;
    }
    const double y = bottom - 6;
    out += fmt::format(
        "<g {}><path class=\"line\" d=\"M{:.1f} {:.1f}h22\"/></g><text x=\"{:.1f}\" y=\"{:.1f}\">{}<tspan class=\"dim\">{}"
        "</tspan></text>\n",
        stroke_of(i), x, y - 4, x + 30, y, xml_text(label), note);
    x += entry;
  }
  return out + "</g>\n";
}

/// The least and greatest finite value of a quantity; nothing where there is none.
std::optional<std::pair<double, double>> range_of(const std::vector<plot_curve>& curves, double curve_point::*quantity) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const plot_curve& c : curves)
    for (const curve_point& p : c.points)
      if (const double value = p.*quantity; std::isfinite(value)) {
        low = std::min(low, value);
        high = std::max(high, value);
      }
  return low <= high ? std::optional(std::pair{low, high}) : std::nullopt;
}

axis time_axis(const plot_data& data) {
  const auto range = range_of(data.curves, &curve_point::seconds);
  double last = range ? range->second : 1;
  for (const plot_curve& c : data.curves)
    last = std::max(last, reached(c).value_or(0));
  return linear_axis(0, last > 0 ? last : 1, 8);
}

axis loss_axis(const plot_data& data) {
  auto [low, high] = range_of(data.curves, &curve_point::train_loss).value_or(std::pair{0.0, 1.0});
  // A run that diverges leaves the panel instead of flattening all other curves.
  double highest_start = -std::numeric_limits<double>::infinity();
  for (const plot_curve& c : data.curves)
    if (!c.points.empty() && std::isfinite(c.points.front().train_loss))
      highest_start = std::max(highest_start, c.points.front().train_loss);
  constexpr double worth_showing = 10, decade = 10;
  if (highest_start > 0)
    high = std::min(high, std::max(worth_showing * highest_start, low));
  if (low > 0 && high / low > decade)
    return log_axis(low / 1.1, high * 1.1);
  const double pad = 0.07 * (high - low);
  return linear_axis(low - pad, high + pad, 6);
}

axis accuracy_axis(const plot_data& data) {
  const double target = data.target_accuracy;
  const auto [low, high] = range_of(data.curves, &curve_point::test_accuracy).value_or(std::pair{0.0, 1.0});
  // What matters happens around the target: the first steps of all curves are cut off.
  constexpr double below = 4;
  const double from = std::min(std::max(low, target - below * (1 - target)), target);
  return linear_axis(from - 0.05 * (1 - from), std::min(std::max(high, target) + 0.15 * (1 - target), 1.0), 6);
}

} // namespace

std::string plot_svg(const plot_data& data) {
  const axis time = time_axis(data), loss = loss_axis(data);
  // Room for the names of curves that end at the right; other names have room beside their ends.
  double reserved = 0;
  for (const plot_curve& c : data.curves)
    if (!c.points.empty() && std::isfinite(c.points.back().seconds)) {
      const double free = (1 - time.share(c.points.back().seconds)) * (width - left - right_margin);
      reserved = std::max(reserved, std::min(text_width(c.label), longest_label) + 12 - free);
    }
  const double right = width - right_margin - reserved;
  double y = 0;
  const std::string legend_text = legend(data, 32, y);
  std::vector<panel> panels{{loss.logarithmic ? "training loss (log scale)" : "training loss", y + 32, loss_height, right, time,
                             loss, &curve_point::train_loss, std::nullopt}};
  if (data.target_accuracy > 0)
    panels.push_back({fmt::format("test accuracy (dashed: the target, {:g})", data.target_accuracy),
                      panels[0].top + loss_height + panel_gap, accuracy_height, right, time, accuracy_axis(data),
                      &curve_point::test_accuracy, data.target_accuracy});
  const double height = panels.back().top + panels.back().height + 46;

  constexpr std::size_t points_in_all = 3600;
  const std::size_t most_points = points_in_all / std::max<std::size_t>(1, data.curves.size() * panels.size());
  std::string body;
  for (const panel& p : panels) {
    body += grid(p, &p == &panels.back(), data.time_label);
    if (p.target)
      body += fmt::format("<path class=\"target\" d=\"M{} {:.1f}H{:.1f}\"/>\n", left, p.at(0, *p.target).y, p.right);
    body += curves_of(p, data, most_points);
  }
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\" "
                     "role=\"img\">\n"
                     "<title>{2}: loss against time</title>\n",
                     width, height, xml_text(data.title))
         + style(data.curves.size()) + fmt::format("<rect class=\"page\" width=\"{}\" height=\"{:.0f}\"/>\n", width, height)
         + fmt::format("<text class=\"title\" x=\"{}\" y=\"24\">{}</text>\n", left,
                       xml_text(shortened(data.title, width - 2 * left)))
         + legend_text + body + "</svg>\n";
}

} // namespace troupe::apps
