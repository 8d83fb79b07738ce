#include "cli/demo_photos.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "framework/core/rng.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int kSide = 64;
constexpr std::array<std::string_view, 6> kClasses = {"bar",  "cross",  "disc",
                                                      "ring", "square", "triangle"};

using Colour = std::array<double, 3>;

// Signed distance to the outline of shape `s` of size 1 around the origin; negative inside
// (Inigo Quilez, "2D distance functions").
double distance(int s, double x, double y) {
  auto box = [](double px, double py, double w, double h) {
    const double dx = std::abs(px) - w, dy = std::abs(py) - h;
    return std::hypot(std::max(dx, 0.0), std::max(dy, 0.0)) + std::min(std::max(dx, dy), 0.0);
  };
  switch (s) {
    case 0:
      return box(x, y, 1.0, 0.28);
    case 1:
      return std::min(box(x, y, 0.95, 0.26), box(x, y, 0.26, 0.95));
    case 2:
      return std::hypot(x, y) - 0.8;
    case 3:
      return std::abs(std::hypot(x, y) - 0.72) - 0.2;
    case 4:
      return box(x, y, 0.72, 0.72);
    default:
      return std::max(std::abs(x) * 0.866 + y * 0.5, -y) - 0.5;
  }
}

Colour colour(Rng& rng, double low, double high) {
  Colour c;
  for (double& v : c) v = low + (high - low) * rng.next_uniform();
  return c;
}

// How much of a pixel lies inside an outline at this distance, in pixels.
double coverage(double d) { return std::clamp(0.5 - d, 0.0, 1.0); }

struct Scene {
  Colour ground, slope, shape, stroke;
  double x, y, size, turn;  // of the shape
  double stroke_turn, stroke_offset, stroke_width;
  double noise;
};

Scene scene(Look look, Rng& rng) {
  const bool day = look == Look::kDay;
  Scene s{};
  s.ground = day ? colour(rng, 0.55, 0.95) : colour(rng, 0.2, 0.6);
  s.slope = colour(rng, -0.2, 0.2);
  s.shape = day ? colour(rng, 0.05, 0.45) : colour(rng, 0.0, 0.15);
  s.stroke = colour(rng, 0.1, 0.9);
  s.size = 15 + 8 * rng.next_uniform();
  s.x = s.size + (kSide - 2 * s.size) * rng.next_uniform();
  s.y = s.size + (kSide - 2 * s.size) * rng.next_uniform();
  s.turn = rng.next_uniform() - 0.5;
  s.stroke_turn = 2 * std::numbers::pi * rng.next_uniform();
  s.stroke_offset = kSide * (rng.next_uniform() - 0.5) * 0.8;
  s.stroke_width = 0.8 + 1.2 * rng.next_uniform();
  s.noise = (day ? 0.04 : 0.08) * (0.5 + rng.next_uniform());
  return s;
}

}  // namespace

std::span<const std::string_view> demo_classes() { return kClasses; }

Image draw_demo_photo(int shape, Look look, uint64_t seed) {
  Rng rng(seed, kClasses.at(static_cast<size_t>(shape)));
  const Scene s = scene(look, rng);
  Image image(kSide, kSide);
  for (int py = 0; py < kSide; ++py) {
    uint8_t* row = image.row(py);
    for (int px = 0; px < kSide; ++px) {
      const double dx = (px - s.x) / s.size, dy = (py - s.y) / s.size;
      const double u = dx * std::cos(s.turn) - dy * std::sin(s.turn);
      const double v = dx * std::sin(s.turn) + dy * std::cos(s.turn);
      const double inside = coverage(distance(shape, u, v) * s.size);
      const double across =
          (px - kSide / 2) * std::cos(s.stroke_turn) + (py - kSide / 2) * std::sin(s.stroke_turn);
      const double stroked = coverage(std::abs(across - s.stroke_offset) - s.stroke_width);
      const double noise = s.noise * rng.next_normal();
      for (size_t c = 0; c < 3; ++c) {
        double value =
            s.ground[c] + s.slope[c] * (static_cast<double>(px + py) / (2 * kSide) - 0.5);
        value += (s.shape[c] - value) * inside;
        value += (s.stroke[c] - value) * stroked;
        row[3 * px + static_cast<int>(c)] =
            static_cast<uint8_t>(std::lround(255 * std::clamp(value + noise, 0.0, 1.0)));
      }
    }
  }
  return image;
}

}  // namespace ndtrain::cli
