#include "framework/sparse/plan/convergence_search.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/numeric/bayesian_search.h"

namespace ndtrain {
namespace {

constexpr double kDropDigits = 1e4, kMostDrop = 0.9999;
constexpr int kTries = 100;  // for a point that is not known yet

// Batches in parts of the largest, drops as LossPenalty has them.
class Coordinates {
 public:
  explicit Coordinates(const ConvergenceSearch& s) : search_(s) {}

  Bounds bounds() const {
    const auto largest = static_cast<double>(search_.largest_batch);
    return {.low = {static_cast<double>(search_.smallest_batch) / largest, 0},
            .high = {1, of_drop(search_.most_drop)}};
  }

  std::vector<double> of(const ConvergenceProfile::Point& p) const {
    const Bounds b = bounds();
    std::vector<double> x = {p.batch, of_drop(p.second)};
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::clamp(x[i], b.low[i], b.high[i]);
    return x;
  }

  ConvergenceSearch::Point at(const std::vector<double>& x) const {
    const double rows = x[0] * static_cast<double>(search_.largest_batch);
    const auto multiple = static_cast<double>(search_.multiple);
    const int64_t batch = static_cast<int64_t>(std::round(rows / multiple)) * search_.multiple;
    const double drop = 1 - std::pow(10, -3 * x[1]);
    return {
        .batch = std::clamp(batch, search_.smallest_batch, search_.largest_batch),
        .drop = std::clamp(std::round(drop * kDropDigits) / kDropDigits, 0.0, search_.most_drop)};
  }

  ConvergenceSearch::Point random(Rng& rng) const {
    const Bounds b = bounds();
    std::vector<double> x;
    for (size_t i = 0; i < b.low.size(); ++i) {
      x.push_back(b.low[i] + rng.next_uniform() * (b.high[i] - b.low[i]));
    }
    return at(x);
  }

  bool is_known(std::span<const ConvergenceProfile::Point> known,
                const ConvergenceSearch::Point& p) const {
    const auto largest = static_cast<double>(search_.largest_batch);
    return std::ranges::any_of(known, [&](const ConvergenceProfile::Point& k) {
      return std::llround(k.batch * largest) == p.batch &&
             std::abs(k.second - p.drop) < 0.5 / kDropDigits;
    });
  }

 private:
  static double of_drop(double drop) { return -std::log10(1 - drop) / 3; }

  const ConvergenceSearch& search_;
};

}  // namespace

void validate(const ConvergenceSearch& s) {
  if (!(1 <= s.multiple && s.multiple <= s.smallest_batch && s.smallest_batch < s.largest_batch)) {
    throw Error("convergence: batches of ", s.smallest_batch, " to ", s.largest_batch,
                " rows, in multiples of ", s.multiple);
  }
  if (!(s.most_drop > 0 && s.most_drop <= kMostDrop)) {
    throw Error("convergence: the most that is dropped is ", s.most_drop);
  }
  if (s.random_points < 0) throw Error("convergence: ", s.random_points, " random points");
}

ConvergenceSearch::Point ConvergenceSearch::next(
    std::span<const ConvergenceProfile::Point> known) const {
  validate(*this);
  const Coordinates coordinates(*this);
  Rng rng(seed, "convergence point " + std::to_string(known.size()));
  if (known.empty()) return {.batch = smallest_batch, .drop = 0};
  Point point;
  if (std::ssize(known) <= random_points) {
    point = coordinates.random(rng);
  } else {
    BayesianSearch search(coordinates.bounds(), Rng(rng.next_bits()), {.xi = xi});
    for (const ConvergenceProfile::Point& p : known) search.tell(coordinates.of(p), p.penalty);
    point = coordinates.at(search.ask());
  }
  // Rounded, two may be one.
  for (int i = 0; i < kTries && coordinates.is_known(known, point); ++i) {
    point = coordinates.random(rng);
  }
  return point;
}

}  // namespace ndtrain
