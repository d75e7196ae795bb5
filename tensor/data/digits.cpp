// SPDX-License-Identifier: BSD-3-Clause
// Drawing digits: glyph, hand, pen, noise.
#include "tensor/data/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/data/glyphs.hpp"
#include "tensor/data/random_stream.hpp"

namespace troupe {

namespace {

/// How one sample is written. Lengths in pixels.
struct hand {
  point centre, size; ///< where the glyph's unit square goes
  float slant;        ///< shear to the right per pixel of height
  float cosine, sine; ///< of the rotation
  float shake;        ///< of each point of the glyph, in parts of its square
  float bend;         ///< amplitude of the displacement field
  float radius;       ///< half the pen's width
  float pressure;     ///< how much the width varies along a stroke
  float softness;     ///< over how many pixels ink fades out at the edge
  float ink, noise;   ///< brightness, and its standard deviation per pixel
};

hand draw_hand(random_stream& draws) {
  hand style{};
  style.centre = {digit_side / 2.0F + 1.2F * draws.bell(), digit_side / 2.0F + 1.1F * draws.bell()};
  auto height = std::clamp(19.0F + 1.4F * draws.bell(), 15.0F, 23.0F);
  style.size = {height * std::clamp(0.74F + 0.12F * draws.bell(), 0.45F, 1.05F), height};
  style.slant = 0.14F + 0.19F * draws.bell();
  // t is the tangent of half the angle; about 7 degrees of standard deviation.
  auto t = 0.06F * draws.bell();
  style.cosine = (1 - t * t) / (1 + t * t);
  style.sine = 2 * t / (1 + t * t);
  style.shake = draws.uniform(0.01F, 0.05F);
  style.bend = draws.uniform(0.4F, 1.8F);
  style.radius = std::clamp(1.25F + 0.33F * draws.bell(), 0.7F, 2.2F);
  style.pressure = draws.uniform(0.0F, 0.25F);
  style.softness = draws.uniform(0.9F, 1.7F);
  style.ink = draws.uniform(200, 255);
  style.noise = draws.uniform(0, 20);
  return style;
}

/// A smooth random vector field over the image: cubic B-splines over knots seven pixels apart, with random weights.
class displacement_field {
public:
  displacement_field(random_stream& draws, float amplitude) {
    for (auto& row : weights_)
      for (auto& weight : row)
        weight = {amplitude * draws.bell(), amplitude * draws.bell()};
  }

  point at(point p) const {
    auto [column, u] = locate(p.x);
    auto [row, v] = locate(p.y);
    auto across = basis(u), down = basis(v);
    point sum;
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < 4; ++j) {
        auto share = down[i] * across[j];
        sum.x += share * weights_[row + i][column + j].x;
        sum.y += share * weights_[row + i][column + j].y;
      }
    return sum;
  }

private:
  static constexpr int cells = 4;
  static constexpr float knot_distance = digit_side / static_cast<float>(cells);

  /// The cell that holds a coordinate, and how far in it lies; what is outside counts as the border.
  static std::pair<std::size_t, float> locate(float coordinate) {
    auto position = std::clamp(coordinate / knot_distance, 0.0F, static_cast<float>(cells));
    auto cell = std::min(static_cast<int>(position), cells - 1);
    return {static_cast<std::size_t>(cell), position - static_cast<float>(cell)};
  }

  static std::array<float, 4> basis(float u) {
    auto w = 1 - u;
    return {w * w * w / 6, (3 * u * u * u - 6 * u * u + 4) / 6, (3 * w * w * w - 6 * w * w + 4) / 6, u * u * u / 6};
  }

  std::array<std::array<point, cells + 3>, cells + 3> weights_;
};

/// Ink on paper, 0 to 1 a pixel.
class canvas {
public:
  /// A pen's stroke from a to b, its radius going from `radius_a` to `radius_b`, its edge fading over `softness`. Pixel
  /// (i, j) has its centre at (i + 0.5, j + 0.5).
  void draw(point a, point b, float radius_a, float radius_b, float softness) {
    auto reach = std::max(radius_a, radius_b) + softness / 2;
    auto [left, right] = pixels_between(std::min(a.x, b.x) - reach, std::max(a.x, b.x) + reach);
    auto [top, bottom] = pixels_between(std::min(a.y, b.y) - reach, std::max(a.y, b.y) + reach);
    auto dx = b.x - a.x, dy = b.y - a.y;
    auto scale = 1 / std::max(dx * dx + dy * dy, 1e-6F);
    auto sharpness = 1 / softness;
    for (auto row = top; row < bottom; ++row)
      for (auto column = left; column < right; ++column) {
        auto x = static_cast<float>(column) + 0.5F - a.x, y = static_cast<float>(row) + 0.5F - a.y;
        auto along = std::clamp((x * dx + y * dy) * scale, 0.0F, 1.0F);
        x -= along * dx;
        y -= along * dy;
        auto inside = radius_a + along * (radius_b - radius_a) - std::sqrt(x * x + y * y);
        auto& ink = ink_[static_cast<std::size_t>(row * digit_side + column)];
        ink = std::max(ink, std::min(inside * sharpness + 0.5F, 1.0F));
      }
  }

  const std::array<float, digit_pixels>& ink() const { return ink_; }

private:
  /// The half-open range of pixels whose centres may lie in [low, high].
  static std::pair<int, int> pixels_between(float low, float high) {
    auto bounded = [](float at) { return static_cast<int>(std::clamp(at, 0.0F, static_cast<float>(digit_side))); };
    return {bounded(low), bounded(high + 1)};
  }

  std::array<float, digit_pixels> ink_{};
};

/// The point `u` (0 to 1) of the way from b to c on a smooth curve through a, b, c, d (Catmull & Rom 1974).
point on_curve(const std::array<point, 4>& p, float u) {
  auto blend = [u](float a, float b, float c, float d) {
    return b + 0.5F * u * (c - a + u * (2 * a - 5 * b + 4 * c - d + u * (3 * (b - c) + d - a)));
  };
  return {blend(p[0].x, p[1].x, p[2].x, p[3].x), blend(p[0].y, p[1].y, p[2].y, p[3].y)};
}

/// From the glyph's unit square to the image.
point place(const hand& style, const displacement_field& bend, point p) {
  auto x = (p.x - 0.5F) * style.size.x, y = (p.y - 0.5F) * style.size.y;
  x -= style.slant * y;
  point placed{style.centre.x + style.cosine * x - style.sine * y, style.centre.y + style.sine * x + style.cosine * y};
  auto moved = bend.at(placed);
  return {placed.x + moved.x, placed.y + moved.y};
}

void draw_stroke(const stroke& points, const hand& style, const displacement_field& bend, random_stream& draws, canvas& paper) {
  constexpr int steps = 4; ///< straight pieces between two points of a stroke
  auto radius = style.radius * (1 + style.pressure * draws.uniform(-1, 1));
  auto last = points.size() - 1;
  auto from = place(style, bend, points[0]);
  for (std::size_t i = 0; i < last; ++i) {
    const std::array<point, 4> near{points[i == 0 ? 0 : i - 1], points[i], points[i + 1], points[std::min(i + 2, last)]};
    auto next_radius = style.radius * (1 + style.pressure * draws.uniform(-1, 1));
    auto change = (next_radius - radius) / steps;
    for (int step = 1; step <= steps; ++step, radius += change) {
      auto to = place(style, bend, on_curve(near, static_cast<float>(step) / steps));
      paper.draw(from, to, radius, radius + change, style.softness);
      from = to;
    }
  }
}

/// One of the ways to write `digit`, the commoner ones more often.
const glyph& draw_way(int digit, random_stream& draws) {
  auto ways = glyphs_of(digit);
  auto count = static_cast<std::uint32_t>(ways.size());
  auto first = draws.below(count), second = draws.below(count);
  return ways[std::min(first, second)];
}

/// Moves each point a little. Points at the same place stay together, so that strokes that meet still do.
glyph shaken(glyph strokes, float shake, random_stream& draws) {
  std::vector<std::pair<point, point>> moved;
  for (auto& line : strokes)
    for (auto& p : line) {
      auto known = std::ranges::find(moved, p, &std::pair<point, point>::first);
      if (known == moved.end())
        known = moved.insert(known, {p, {p.x + shake * draws.bell(), p.y + shake * draws.bell()}});
      p = known->second;
    }
  return strokes;
}

labelled_images draw_half(std::uint64_t seed, split half, std::int64_t samples) {
  labelled_images images{{1, digit_side, digit_side}, 10, {}, {}};
  images.pixels.resize(static_cast<std::size_t>(samples * digit_pixels));
  images.labels.resize(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    auto pixels = std::span{images.pixels}.subspan(i * digit_pixels).first<digit_pixels>();
    images.labels[i] = static_cast<std::uint8_t>(draw_digit({seed, half, i}, pixels));
  }
  return images;
}

} // namespace

int draw_digit(const digit_key& key, std::span<std::uint8_t, digit_pixels> pixels) {
  random_stream draws{
      {.seed = key.seed, .stream = key.half == split::train ? stream_digits_train : stream_digits_test, .step = key.index}};
  auto label = static_cast<int>(draws.below(10));
  auto style = draw_hand(draws);
  displacement_field bend{draws, style.bend};
  canvas paper;
  for (const auto& line : shaken(draw_way(label, draws), style.shake, draws))
    draw_stroke(line, style, bend, draws, paper);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    auto brightness = style.ink * paper.ink()[i] + style.noise * draws.bell();
    pixels[i] = static_cast<std::uint8_t>(std::clamp(brightness, 0.0F, 255.0F) + 0.5F);
  }
  return label;
}

image_halves draw_digits(std::uint64_t seed, std::int64_t train_samples, std::int64_t test_samples) {
  return {draw_half(seed, split::train, train_samples), draw_half(seed, split::test, test_samples)};
}

} // namespace troupe
