#include "models/init.h"

#include <cmath>

namespace ndtrain::models {
namespace {

constexpr double kTruncation = 2;

int64_t fan_out(const Shape& weight) { return weight[0] * weight.count(2, weight.rank()); }

// Fills element i with draw(rng, i).
template <typename F>
Tensor filled(const Shape& shape, const F& draw) {
  Tensor t({DType::kF32, shape});
  const std::span<float> values = t.mutable_as<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(draw(i));
  return t;
}

Tensor draw_normal(const Shape& shape, const Rng& rng, double deviation) {
  return filled(shape, [&](uint64_t i) { return deviation * rng.normal(i); });
}

Tensor draw_uniform(const Shape& shape, const Rng& rng, double bound) {
  return filled(shape, [&](uint64_t i) { return bound * (2 * rng.uniform(i) - 1); });
}

Tensor draw_truncated(const Shape& shape, Rng rng, double deviation) {
  return filled(shape, [&](uint64_t) {
    double v = deviation * rng.next_normal();
    while (std::abs(v) > kTruncation) v = deviation * rng.next_normal();
    return v;
  });
}

}  // namespace

int64_t fan_in(const Shape& weight) { return weight.count(1, weight.rank()); }

Init constant(double value) {
  return [=](const Shape& s, Rng) { return filled(s, [&](uint64_t) { return value; }); };
}
Init normal(double deviation) {
  return [=](const Shape& s, Rng rng) { return draw_normal(s, rng, deviation); };
}
Init uniform(double bound) {
  return [=](const Shape& s, Rng rng) { return draw_uniform(s, rng, bound); };
}
Init truncated_normal(double deviation) {
  return [=](const Shape& s, Rng rng) { return draw_truncated(s, rng, deviation); };
}

Init kaiming_normal_fan_out() {
  return [](const Shape& s, Rng rng) {
    return draw_normal(s, rng, std::sqrt(2.0 / static_cast<double>(fan_out(s))));
  };
}
Init kaiming_uniform() {
  return [](const Shape& s, Rng rng) {
    return draw_uniform(s, rng, std::sqrt(6.0 / static_cast<double>(fan_in(s))));
  };
}
Init xavier_uniform() {
  return [](const Shape& s, Rng rng) {
    return draw_uniform(s, rng, std::sqrt(6.0 / static_cast<double>(fan_in(s) + fan_out(s))));
  };
}
Init fan_in_uniform() {
  return [](const Shape& s, Rng rng) {
    return draw_uniform(s, rng, 1 / std::sqrt(static_cast<double>(fan_in(s))));
  };
}
Init fan_in_truncated_normal() {
  return [](const Shape& s, Rng rng) {
    return draw_truncated(s, rng, 1 / std::sqrt(static_cast<double>(fan_in(s))));
  };
}

}  // namespace ndtrain::models
