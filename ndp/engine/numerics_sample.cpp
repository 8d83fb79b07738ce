#include "ndp/engine/numerics_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "framework/core/rng.h"
#include "ndp/photos/encode.h"

namespace ndtrain::ndp {
namespace {

constexpr int kSide = 160;
constexpr int kSpots = 12;
constexpr double kNoise = 6;  // of 255

using Colour = std::array<double, 3>;

Colour colour(Rng& rng) {
  Colour c;
  for (double& v : c) v = 255 * rng.next_uniform();
  return c;
}

struct Spot {
  double x, y, radius, squeeze;
  double stripes, turn;  // radians per pixel across it; 0: plain
  Colour paint;
};

Spot spot(Rng& rng) {
  Spot s{};
  s.x = kSide * rng.next_uniform();
  s.y = kSide * rng.next_uniform();
  s.radius = kSide * (0.04 + 0.3 * rng.next_uniform());
  s.squeeze = 0.4 + rng.next_uniform();
  s.stripes = rng.next_uniform() < 0.5 ? 0 : 0.1 + rng.next_uniform();
  s.turn = std::numbers::pi * rng.next_uniform();
  s.paint = colour(rng);
  return s;
}

Image draw(Rng rng) {
  Image image(kSide, kSide);
  const Colour top = colour(rng), bottom = colour(rng);
  std::vector<Spot> spots(kSpots);
  std::ranges::generate(spots, [&] { return spot(rng); });
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      Colour c;
      for (size_t i = 0; i < 3; ++i) c[i] = top[i] + (bottom[i] - top[i]) * y / kSide;
      for (const Spot& s : spots) {
        const double dx = x - s.x, dy = (y - s.y) * s.squeeze;
        if (dx * dx + dy * dy > s.radius * s.radius) continue;
        const double wave = std::cos(s.stripes * (dx * std::cos(s.turn) + dy * std::sin(s.turn)));
        for (size_t i = 0; i < 3; ++i) c[i] = s.paint[i] * (0.6 + 0.4 * wave);
      }
      for (size_t i = 0; i < 3; ++i) {
        const double v = c[i] + kNoise * rng.next_normal();
        image.row(y)[3 * x + static_cast<int>(i)] = static_cast<uint8_t>(std::clamp(v, 0., 255.));
      }
    }
  }
  return image;
}

}  // namespace

std::vector<std::string> numerics_sample(size_t n) {
  std::vector<std::string> files;
  for (size_t i = 0; i < n; ++i) files.push_back(encode_jpeg(draw(Rng(i, "numerics sample"))));
  return files;
}

}  // namespace ndtrain::ndp
