// SPDX-License-Identifier: BSD-3-Clause
// Draws dots, and axes around them.
#include "apps/console/drawing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "apps/plot/plot_axis.hpp"
#include "apps/report.hpp"

namespace troupe::apps::console {

namespace {

constexpr std::size_t label_width = 7, least_width = 24, least_rows = 3;

/// A grid of letters with dots in them: two by four in Unicode's Braille, else one.
class canvas {
public:
  canvas(std::size_t columns, std::size_t rows, bool unicode)
      : columns_(columns), rows_(rows), across_(unicode ? 2 : 1), down_(unicode ? 4 : 1), dots_(columns * rows),
        marks_(columns * rows) {}

  std::size_t width() const { return columns_ * across_; }
  std::size_t height() const { return rows_ * down_; }
  /// The dot at a fraction of the whole, from the left or from the top.
  static std::size_t place(double share, std::size_t dots) {
    return static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(dots - 1)));
  }
  std::size_t row_of(std::size_t y) const { return y / down_; }

  void dot(std::size_t x, std::size_t y) {
    static constexpr std::array<std::array<std::uint8_t, 2>, 4> bits{{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    dots_[cell(x, y)] |= across_ == 1 ? 1 : bits[y % 4][x % 2];
  }
  void line(std::size_t x0, std::size_t y0, std::size_t x1, std::size_t y1) {
    const auto apart = [](std::size_t a, std::size_t b) { return a > b ? a - b : b - a; };
    const auto steps = std::max<std::size_t>({apart(x0, x1), apart(y0, y1), 1});
    const auto between = [steps](std::size_t a, std::size_t b, std::size_t i) {
      return (a * (steps - i) + b * i + steps / 2) / steps;
    };
    for (std::size_t i = 0; i <= steps; ++i)
      dot(between(x0, x1, i), between(y0, y1, i));
  }
  void mark(std::size_t x, std::size_t y) { marks_[cell(x, y)] = true; }

  std::string row(std::size_t r) const {
    std::string out;
    for (std::size_t i = r * columns_; i < (r + 1) * columns_; ++i)
      if (marks_[i])
        out += across_ == 1 ? "o" : "●";
      else if (dots_[i] == 0)
        out += ' ';
      else if (across_ == 1)
        out += '.';
      else
        out += {'\xe2', static_cast<char>(0xa0 + (dots_[i] >> 6)),
                static_cast<char>(0x80 + (dots_[i] & 0x3f))}; // U+2800 and the bits
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

private:
  std::size_t cell(std::size_t x, std::size_t y) const { return y / down_ * columns_ + x / across_; }

  std::size_t columns_, rows_, across_, down_;
  std::vector<std::uint8_t> dots_;
  std::vector<bool> marks_;
};

std::vector<drawn_point> finite(std::vector<drawn_point> points) {
  std::erase_if(points, [](const drawn_point& p) { return !std::isfinite(p.seconds) || !std::isfinite(p.value); });
  return points;
}

axis axis_of(const drawing& shown, std::size_t rows) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const auto* points : {&shown.line, &shown.marks})
    for (const auto& p : *points) {
      low = std::min(low, p.value);
      high = std::max(high, p.value);
    }
  return low > 0 && high / low > 10 ? log_axis(low / 1.1, high * 1.1)
                                    : linear_axis(low, high, static_cast<int>(std::max<std::size_t>(rows / 3, 2)));
}

/// Draws a line through the mean of each column of dots that has points.
void draw_line(canvas& on, const std::vector<drawn_point>& points, const axis& time, const axis& value) {
  std::vector<std::pair<double, int>> means(on.width());
  for (const auto& p : points) {
    auto& [sum, count] = means[canvas::place(time.share(p.seconds), on.width())];
    sum += value.share(p.value);
    ++count;
  }
  std::pair<std::size_t, std::size_t> last{on.width(), 0}; // none
  for (std::size_t x = 0; x < means.size(); ++x) {
    const auto [sum, count] = means[x];
    if (count == 0)
      continue;
    const auto y = canvas::place(1 - sum / count, on.height());
    if (last.first == on.width())
      on.dot(x, y);
    else
      on.line(last.first, last.second, x, y);
    last = {x, y};
  }
}

std::string panel(const drawing& shown, const axis& time, std::size_t columns, std::size_t rows, bool unicode) {
  canvas on{columns, rows, unicode};
  const auto value = axis_of(shown, rows);
  draw_line(on, shown.line, time, value);
  for (const auto& p : shown.marks)
    on.mark(canvas::place(time.share(p.seconds), on.width()), canvas::place(1 - value.share(p.value), on.height()));
  std::vector<std::string> labels(rows);
  for (const auto tick : value.ticks)
    if (auto& label = labels[on.row_of(canvas::place(1 - value.share(tick), on.height()))]; label.empty())
      label = fmt::format("{:.3g}", tick);
  auto text = shown.title + (value.logarithmic ? " (logarithmic)" : "") + "\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const auto* edge = labels[row].empty() ? (unicode ? "│" : "|") : (unicode ? "┤" : "+");
    text += fmt::format("{:>{}} {}{}\n", labels[row], label_width, edge, on.row(row));
  }
  return text;
}

/// The axis with its ticks, and below it the labels that do not touch.
std::string time_axis(const axis& time, const std::string& unit, std::size_t columns, bool unicode) {
  const auto width = label_width + 2 + columns;
  std::vector<std::string> line(columns, unicode ? "─" : "-");
  std::string labels(width, ' ');
  labels.replace(width - unit.size(), unit.size(), unit);
  for (const auto tick : time.ticks) {
    const auto column = canvas::place(time.share(tick), columns);
    line[column] = unicode ? "┬" : "+";
    const auto label = fmt::format("{:.4g}", tick);
    const auto from = label_width + 2 + column - label.size() / 2, with_gaps = label.size() + 2;
    if (from + label.size() + 1 <= width && labels.substr(from - 1, with_gaps) == std::string(with_gaps, ' '))
      labels.replace(from, label.size(), label);
  }
  return fmt::format("{:>{}} {}{}\n{}\n", "", label_width, unicode ? "└" : "+", fmt::join(line, ""), labels);
}

} // namespace

std::string draw(const std::vector<drawing>& panels, std::size_t width, std::size_t height, bool unicode) {
  std::vector<drawing> shown;
  double end = 0;
  for (const auto& each : panels) {
    shown.push_back({each.title, finite(each.line), finite(each.marks)});
    for (const auto* points : {&shown.back().line, &shown.back().marks})
      for (const auto& p : *points)
        end = std::max(end, p.seconds);
  }
  std::erase_if(shown, [](const drawing& d) { return d.line.empty() && d.marks.empty(); });
  if (shown.empty())
    return "there is nothing to draw yet\n";
  const auto [unit, seconds] = end < 300 ? std::pair{"s", 1.0} : end < 3 * 3600 ? std::pair{"min", 60.0} : std::pair{"h", 3600.0};
  for (auto& each : shown)
    for (auto* points : {&each.line, &each.marks})
      for (auto& p : *points)
        p.seconds /= seconds;
  const auto columns = std::max(width, least_width) - label_width - 2;
  const auto time = linear_axis(0, end / seconds, static_cast<int>(columns / 10));
  const auto overhead = shown.size() + 2; // titles, and the axis with its labels
  auto left = std::max(height, overhead + least_rows * shown.size()) - overhead;
  std::string text;
  for (std::size_t i = 0; i < shown.size(); ++i) { // the first of two is the taller
    const auto more = shown.size() - i - 1;
    const auto rows = more == 0 ? left : std::clamp(left * 3 / 5, least_rows, left - least_rows * more);
    text += panel(shown[i], time, columns, rows, unicode);
    left -= rows;
  }
  return text + time_axis(time, unit, columns, unicode);
}

} // namespace troupe::apps::console
