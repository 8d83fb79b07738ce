#include "framework/numeric/nelder_mead.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

using Point = std::vector<double>;

struct Vertex {
  Point at;
  double value;
};

class Simplex {
 public:
  Simplex(const Objective& f, std::span<const double> start, const Bounds& bounds,
          const NelderMeadOptions& options)
      : f_(f), bounds_(bounds), options_(options), n_(start.size()) {
    if (options.adaptive && n_ > 1) {
      const auto n = static_cast<double>(n_);
      expand_ = 1 + 2 / n;
      contract_ = 0.75 - 1 / (2 * n);
      shrink_ = 1 - 1 / n;
    }
    vertices_.push_back(vertex(Point(start.begin(), start.end())));
    for (size_t i = 0; i < n_; ++i) {
      Point p = vertices_[0].at;
      const double step = (bounds.high[i] - bounds.low[i]) / 10;
      p[i] += p[i] + step <= bounds.high[i] ? step : -step;
      vertices_.push_back(vertex(p));
    }
  }

  Minimum minimise() {
    sort();
    while (evaluations_ < options_.evaluations && !is_small()) {
      step();
      sort();
    }
    return {.at = vertices_[0].at, .value = vertices_[0].value, .evaluations = evaluations_};
  }

 private:
  Vertex vertex(Point p) {
    for (size_t i = 0; i < n_; ++i) p[i] = std::clamp(p[i], bounds_.low[i], bounds_.high[i]);
    ++evaluations_;
    const double value = f_(p);
    return {std::move(p), std::isnan(value) ? std::numeric_limits<double>::infinity() : value};
  }

  void sort() { std::ranges::stable_sort(vertices_, {}, &Vertex::value); }

  bool is_small() const {
    if (!(vertices_.back().value - vertices_[0].value <= options_.tolerance)) return false;
    for (size_t i = 0; i < n_; ++i) {
      const double range = bounds_.high[i] - bounds_.low[i];
      for (const Vertex& v : vertices_) {
        if (std::abs(v.at[i] - vertices_[0].at[i]) > options_.tolerance * range) return false;
      }
    }
    return true;
  }

  // On the line from the worst vertex through the centre of the others: 1 is as far behind it.
  Vertex beyond(const Point& centre, double times) {
    Point p(n_);
    for (size_t i = 0; i < n_; ++i) p[i] = centre[i] + times * (centre[i] - vertices_[n_].at[i]);
    return vertex(std::move(p));
  }

  void step() {
    Point centre(n_);
    for (size_t v = 0; v < n_; ++v) {
      for (size_t i = 0; i < n_; ++i) {
        centre[i] += vertices_[v].at[i] / static_cast<double>(n_);
      }
    }
    Vertex& worst = vertices_[n_];
    Vertex reflected = beyond(centre, 1);
    if (reflected.value < vertices_[0].value) {
      Vertex expanded = beyond(centre, expand_);
      worst = expanded.value < reflected.value ? std::move(expanded) : std::move(reflected);
    } else if (reflected.value < vertices_[n_ - 1].value) {
      worst = std::move(reflected);
    } else {
      const bool outside = reflected.value < worst.value;
      Vertex contracted = beyond(centre, outside ? contract_ : -contract_);
      if (contracted.value < (outside ? reflected.value : worst.value)) {
        worst = std::move(contracted);
      } else {
        shrink();
      }
    }
  }

  void shrink() {
    for (size_t v = 1; v <= n_; ++v) {
      Point p(n_);
      for (size_t i = 0; i < n_; ++i) {
        p[i] = vertices_[0].at[i] + shrink_ * (vertices_[v].at[i] - vertices_[0].at[i]);
      }
      vertices_[v] = vertex(std::move(p));
    }
  }

  const Objective& f_;
  const Bounds& bounds_;
  const NelderMeadOptions options_;
  const size_t n_;
  double expand_ = 2, contract_ = 0.5, shrink_ = 0.5;
  int evaluations_ = 0;
  std::vector<Vertex> vertices_;  // n + 1
};

}  // namespace

Minimum nelder_mead(const Objective& f, std::span<const double> start, const Bounds& bounds,
                    const NelderMeadOptions& options) {
  validate(bounds);
  if (start.size() != bounds.low.size()) {
    throw Error("nelder_mead: begins at ", start.size(), " coordinates of ", bounds.low.size());
  }
  return Simplex(f, start, bounds, options).minimise();
}

}  // namespace ndtrain
