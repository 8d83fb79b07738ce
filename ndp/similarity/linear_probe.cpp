#include "ndp/similarity/linear_probe.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

constexpr int kMostSteps = 200;
constexpr int kMostHalvings = 30;
constexpr double kFlat = 1e-5;  // the largest slope of the mean loss at which it is the least
constexpr size_t kRemembered = 10;
constexpr size_t kParts = 16;  // in which gradients are summed, whatever the threads

double inner(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Logits to probabilities, in place; the logarithm of their sum of exponentials.
double to_probabilities(std::span<double> z) {
  const double top = *std::ranges::max_element(z);
  double sum = 0;
  for (double& x : z) sum += x = std::exp(x - top);
  for (double& x : z) x /= sum;
  return top + std::log(sum);
}

void logits_of(const LinearProbe& probe, std::span<const float> row, std::span<double> to) {
  const float* w = probe.weights.data();
  const float* bias = w + probe.classes * probe.dimensions;
  for (size_t k = 0; k < probe.classes; ++k) {
    to[k] = double{product({w + k * probe.dimensions, row.size()}, row)} + double{bias[k]};
  }
}

// The mean loss with its penalty, and its gradient.
class ProbeLoss {
 public:
  ProbeLoss(const EmbeddingRows& rows, std::span<const ProbeExample> examples, size_t classes,
            double c, ThreadPool& threads)
      : rows_(rows),
        examples_(examples),
        threads_(threads),
        penalty_(1 / (c * static_cast<double>(examples.size()))) {
    probe_.classes = classes;
    probe_.dimensions = rows.dimensions;
    probe_.weights.resize(size());
  }

  size_t size() const { return probe_.classes * (probe_.dimensions + 1); }

  double at(std::span<const double> w, std::span<double> gradient) {
    std::ranges::transform(w, probe_.weights.begin(),
                           [](double x) { return static_cast<float>(x); });
    std::vector<Part> parts(std::min(kParts, examples_.size()));
    const auto n = static_cast<int64_t>(parts.size());
    threads_.parallel_for(n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        parts[static_cast<size_t>(p)] = part(static_cast<size_t>(p), parts.size());
      }
    });
    const auto count = static_cast<double>(examples_.size());
    std::ranges::fill(gradient, 0);
    double loss = 0;
    for (const Part& p : parts) {
      loss += p.loss;
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += double{p.gradient[i]};
    }
    for (double& g : gradient) g /= count;
    const size_t penalised = probe_.classes * probe_.dimensions;
    double squares = 0;
    for (size_t i = 0; i < penalised; ++i) {
      squares += w[i] * w[i];
      gradient[i] += penalty_ * w[i];
    }
    return loss / count + penalty_ * squares / 2;
  }

  const LinearProbe& probe() const { return probe_; }

 private:
  struct Part {
    double loss = 0;
    std::vector<float> gradient;
  };

  Part part(size_t number, size_t parts) const {
    Part sum;
    sum.gradient.resize(size());
    float* const bias = sum.gradient.data() + probe_.classes * probe_.dimensions;
    std::vector<double> p(probe_.classes);
    const size_t n = examples_.size();
    for (size_t e = number * n / parts; e < (number + 1) * n / parts; ++e) {
      const std::span<const float> row = rows_.row(examples_[e].row);
      logits_of(probe_, row, p);
      const double of_label = p[examples_[e].label];
      sum.loss += to_probabilities(p) - of_label;
      p[examples_[e].label] -= 1;
      for (size_t k = 0; k < p.size(); ++k) {
        const auto slope = static_cast<float>(p[k]);
        add_scaled({sum.gradient.data() + k * probe_.dimensions, row.size()}, slope, row);
        bias[k] += slope;
      }
    }
    return sum;
  }

  const EmbeddingRows& rows_;
  const std::span<const ProbeExample> examples_;
  ThreadPool& threads_;
  const double penalty_;
  LinearProbe probe_;
};

// What the last steps say of the curvature: an inverse Hessian to multiply by.
class Curvature {
 public:
  void add(std::vector<double> step, std::vector<double> change) {
    const double along = inner(step, change);
    if (along <= 1e-12 * inner(change, change)) return;
    pairs_.push_back({std::move(step), std::move(change), 1 / along});
    if (pairs_.size() > kRemembered) pairs_.pop_front();
  }
  void forget() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

  // The two loops of Liu and Nocedal.
  std::vector<double> direction(std::span<const double> gradient) const {
    std::vector<double> d(gradient.size()), weight(pairs_.size());
    std::ranges::transform(gradient, d.begin(), std::negate());
    for (size_t i = pairs_.size(); i-- > 0;) {
      weight[i] = pairs_[i].inverse * inner(pairs_[i].step, d);
      add_to(d, -weight[i], pairs_[i].change);
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      const double scale = 1 / (last.inverse * inner(last.change, last.change));
      for (double& x : d) x *= scale;
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const double back = pairs_[i].inverse * inner(pairs_[i].change, d);
      add_to(d, weight[i] - back, pairs_[i].step);
    }
    return d;
  }

 private:
  struct Pair {
    std::vector<double> step, change;
    double inverse;  // of their product
  };
  static void add_to(std::vector<double>& to, double times, const std::vector<double>& what) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += times * what[i];
  }
  std::deque<Pair> pairs_;
};

double largest(std::span<const double> values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

// Down the convex `loss` from `w`, by steps that are halved until they go down enough.
void descend(ProbeLoss& loss, std::vector<double>& w) {
  constexpr double kEnough = 1e-4;  // of what the slope promises (Armijo)
  std::vector<double> gradient(w.size()), next(w.size()), next_gradient(w.size());
  double value = loss.at(w, gradient);
  Curvature curvature;
  for (int step = 0; step < kMostSteps && largest(gradient) > kFlat; ++step) {
    const std::vector<double> d = curvature.direction(gradient);
    const double slope = inner(d, gradient);
    double length = curvature.empty() ? std::min(1.0, 1 / std::sqrt(inner(d, d))) : 1;
    double next_value = 0;
    int halvings = 0;
    for (; halvings < kMostHalvings; ++halvings, length /= 2) {
      for (size_t i = 0; i < w.size(); ++i) next[i] = w[i] + length * d[i];
      next_value = loss.at(next, next_gradient);
      if (next_value <= value + kEnough * length * slope) break;
    }
    if (halvings == kMostHalvings) {  // what floats can say of it is said, or the memory is no good
      if (curvature.empty()) break;
      curvature.forget();
      continue;
    }
    std::vector<double> moved(w.size()), change(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      moved[i] = next[i] - w[i];
      change[i] = next_gradient[i] - gradient[i];
    }
    curvature.add(std::move(moved), std::move(change));
    std::swap(w, next);
    std::swap(gradient, next_gradient);
    value = next_value;
  }
}

}  // namespace

void LinearProbe::probabilities(std::span<const float> row, std::span<double> to) const {
  logits_of(*this, row, to);
  to_probabilities(to);
}

LinearProbe fit_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                      size_t classes, double c, ThreadPool& threads, const LinearProbe* begin) {
  if (examples.empty()) throw Error("a linear probe needs an example at least");
  if (!(c > 0)) throw Error("a linear probe's C is ", c, ", and has to be above 0");
  for (const ProbeExample& e : examples) {
    if (e.row < rows.size() && e.label < classes) continue;
    throw Error("an example of row ", e.row, " and label ", e.label, " among ", rows.size(),
                " rows and ", classes, " classes");
  }
  ProbeLoss loss(rows, examples, classes, c, threads);
  std::vector<double> w(loss.size());
  if (begin && begin->weights.size() == w.size()) {
    std::ranges::copy(begin->weights, w.begin());
  }
  descend(loss, w);
  LinearProbe probe = loss.probe();
  std::ranges::transform(w, probe.weights.begin(), [](double x) { return static_cast<float>(x); });
  return probe;
}

}  // namespace ndtrain::ndp
