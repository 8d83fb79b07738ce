#include "ndp/engine/numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The distance of neighbours of the type around `x`; 0 where it is too small to matter.
double rounding_step(double x, DType type) {
  const int exponent = x == 0 ? std::numeric_limits<int>::min() : std::ilogb(x);
  if (type == DType::kF16) return std::ldexp(1.0, std::max(exponent, -14) - 10);
  if (type == DType::kBF16) return std::ldexp(1.0, std::max(exponent, -126) - 7);
  return 0;
}

double difference_of(double a, double b, DType type) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
  const double step = rounding_step(std::max(std::abs(a), std::abs(b)), type);
  return std::max(0.0, std::abs(a - b) - step);
}

}  // namespace

std::string feature_numerics(const Device& device) {
  return device.numerics() + "; ndtrain " NDT_VERSION " " + photo_decoders();
}

NumericsCheck::NumericsCheck(std::vector<TensorType> row_types) {
  for (TensorType& t : row_types) outputs_.push_back({.type = std::move(t)});
}

void NumericsCheck::add(std::span<const std::byte> theirs, std::span<const std::byte> ours) {
  ++rows_;
  size_t at = 0;
  for (Output& o : outputs_) {
    const auto n = static_cast<size_t>(o.type.shape.count(1, o.type.shape.rank()));
    theirs_.resize(n);
    ours_.resize(n);
    load(theirs.data() + at, n, o.type.dtype, theirs_.data());
    load(ours.data() + at, n, o.type.dtype, ours_.data());
    at += n * size_of(o.type.dtype);
    for (size_t i = 0; i < n; ++i) {
      o.largest = std::max(o.largest, difference_of(theirs_[i], ours_[i], o.type.dtype));
      const double from_mean = ours_[i] - o.mean;
      o.n += 1;
      o.mean += from_mean / o.n;
      o.squares += from_mean * (ours_[i] - o.mean);
    }
  }
}

double NumericsCheck::difference() const {
  double worst = 0;
  for (const Output& o : outputs_) {
    if (o.largest == 0) continue;
    const double deviation = std::sqrt(o.squares / o.n);
    worst = std::max(worst, deviation > 0 ? o.largest / deviation : kInfinity);
  }
  return worst;
}

}  // namespace ndtrain::ndp
