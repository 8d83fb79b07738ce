#include "ndp/similarity/linear_probe.h"

#include <gmock/gmock.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

// Three clouds on a plane and 17 numbers of noise, which overlap.
struct Clouds {
  explicit Clouds(uint64_t seed, size_t n = 90) {
    Rng rng(seed, "clouds");
    rows.dimensions = 19;
    for (size_t i = 0; i < n; ++i) {
      const size_t label = i % 3;
      std::vector<float> row(rows.dimensions);
      for (float& x : row) x = static_cast<float>(rng.next_uniform() - 0.5);
      row[0] += static_cast<float>(std::cos(2.1 * static_cast<double>(label)));
      row[1] += static_cast<float>(std::sin(2.1 * static_cast<double>(label)));
      rows.add(row);
      examples.push_back({i, label});
    }
  }
  EmbeddingRows rows;
  std::vector<ProbeExample> examples;
};

// In double, from what the header says.
double objective(const Clouds& all, const std::vector<double>& w, double c) {
  const size_t d = all.rows.dimensions;
  double loss = 0;
  for (const ProbeExample& e : all.examples) {
    double sum = 0, own = 0;
    for (size_t k = 0; k < 3; ++k) {
      double z = w[3 * d + k];
      for (size_t i = 0; i < d; ++i) z += w[k * d + i] * double{all.rows.row(e.row)[i]};
      sum += std::exp(z);
      if (k == e.label) own = z;
    }
    loss += std::log(sum) - own;
  }
  for (size_t i = 0; i < 3 * d; ++i) loss += w[i] * w[i] / (2 * c);
  return loss;
}

// The objective is convex: where it is flat by finite differences, it is the least.
TEST(LinearProbe, IsTheLeastOfItsObjective) {
  ThreadPool threads(2);
  const Clouds all(1);
  for (const double c : {0.01, 1.0, 100.0}) {
    const LinearProbe probe = fit_probe(all.rows, all.examples, 3, c, threads);
    std::vector<double> w(probe.weights.begin(), probe.weights.end());
    const double scale = static_cast<double>(all.examples.size());
    for (size_t i = 0; i < w.size(); ++i) {
      constexpr double kStep = 1e-4;
      const double at = w[i];
      w[i] = at + kStep;
      const double above = objective(all, w, c);
      w[i] = at - kStep;
      const double below = objective(all, w, c);
      w[i] = at;
      EXPECT_NEAR((above - below) / (2 * kStep) / scale, 0, 5e-5) << "C " << c << ", weight " << i;
    }
  }
}

TEST(LinearProbe, IsTheSameByAnyNumberOfThreadsAndFromAnyBeginning) {
  ThreadPool one(1), three(3);
  const Clouds all(2);
  const LinearProbe a = fit_probe(all.rows, all.examples, 3, 1, one);
  EXPECT_EQ(a.weights, fit_probe(all.rows, all.examples, 3, 1, three).weights);
  const LinearProbe other = fit_probe(all.rows, all.examples, 3, 0.01, one);
  const LinearProbe b = fit_probe(all.rows, all.examples, 3, 1, one, &other);
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_NEAR(a.weights[i], b.weights[i], 2e-2);
}

TEST(LinearProbe, SaysWhatRowsShowThatItWasNotFittedTo) {
  ThreadPool threads(1);
  const Clouds all(3), others(4);
  const LinearProbe probe = fit_probe(all.rows, all.examples, 3, 1, threads);
  std::vector<double> p(3);
  size_t right = 0;
  for (const ProbeExample& e : others.examples) {
    probe.probabilities(others.rows.row(e.row), p);
    EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-12);
    if (std::ranges::max_element(p) - p.begin() == static_cast<std::ptrdiff_t>(e.label)) ++right;
  }
  EXPECT_GE(right, 85U) << "of 90";
}

TEST(LinearProbe, RefusesWhatIsNoExample) {
  ThreadPool threads(1);
  const Clouds all(1);
  const auto refusal = [&](std::vector<ProbeExample> examples, double c) {
    try {
      fit_probe(all.rows, examples, 3, c, threads);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refusal({}, 1), HasSubstr("an example at least"));
  EXPECT_THAT(refusal({{90, 0}}, 1), HasSubstr("row 90"));
  EXPECT_THAT(refusal({{0, 3}}, 1), HasSubstr("label 3"));
  EXPECT_THAT(refusal({{0, 0}}, 0), HasSubstr("C is 0"));
}

TEST(EmbeddingRows, CentredOnesHaveNoMeanAndAVarianceOfOne) {
  const EmbeddingRows rows = centred(Clouds(5).rows);
  double squares = 0;
  std::vector<double> mean(rows.dimensions);
  for (size_t i = 0; i < rows.values.size(); ++i) {
    mean[i % rows.dimensions] += double{rows.values[i]};
    squares += double{rows.values[i]} * double{rows.values[i]};
  }
  for (const double m : mean) EXPECT_NEAR(m, 0, 1e-4);
  EXPECT_NEAR(squares / static_cast<double>(rows.values.size()), 1, 1e-5);
  EXPECT_THAT(centred({.dimensions = 2, .values = {3, 4, 3, 4}}).values, ::testing::Each(0.F));
}

}  // namespace
}  // namespace ndtrain::ndp
