#include "ndp/jobs/temperature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/rng.h"
#include "framework/runtime/interpreter.h"
#include "framework/train/evaluate.h"
#include "models/zoo.h"
#include "tests/graph/model_builder.h"

namespace ndtrain::ndp {
namespace {

struct Logits {
  std::vector<float> logits;
  std::vector<int64_t> labels;
};

// Labels are drawn with the probabilities that the logits divided by `temperature` stand for.
Logits drawn(double temperature, size_t rows = 4000, size_t classes = 5) {
  const Rng rng(1, "logits");
  Logits r;
  uint64_t at = 0;
  for (size_t i = 0; i < rows; ++i) {
    std::vector<double> p;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) {
      const double z = 3 * rng.normal(at++);
      r.logits.push_back(static_cast<float>(z));
      p.push_back(std::exp(z / temperature));
      sum += p.back();
    }
    double left = rng.uniform(at++) * sum;
    size_t label = 0;
    while (label + 1 < classes && left > p[label]) left -= p[label++];
    r.labels.push_back(static_cast<int64_t>(label));
  }
  return r;
}

double mean_loss(const Logits& r, double temperature) {
  double sum = 0;
  const size_t classes = r.logits.size() / r.labels.size();
  for (size_t i = 0; i < r.labels.size(); ++i) {
    std::vector<float> z(r.logits.begin() + static_cast<std::ptrdiff_t>(i * classes),
                         r.logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * classes));
    for (float& x : z) x = static_cast<float>(x / temperature);
    sum += cross_entropy(z, r.labels[i]);
  }
  return sum / static_cast<double>(r.labels.size());
}

TEST(Temperature, HasTheLeastCrossEntropy) {
  for (const double drawn_with : {0.5, 1.0, 2.5}) {
    const Logits r = drawn(drawn_with);
    const double t = fitted_temperature(r.logits, r.labels), least = mean_loss(r, t);
    EXPECT_NEAR(t, drawn_with, 0.1 * drawn_with);
    for (double other = 0.1; other < 10; other *= 1.05)
      EXPECT_GE(mean_loss(r, other), least - 1e-9);
  }
}

TEST(Temperature, StaysWithinBoundsAndLeavesOutWhatIsNotFinite) {
  const std::vector<float> sure = {5, 0, 0, 5}, wrong = {0, 5, 5, 0}, odd = {NAN, 1, INFINITY, 2};
  const std::vector<int64_t> labels = {0, 1};
  const double least = fitted_temperature(sure, labels);
  EXPECT_TRUE(least >= 0.05 && least < 0.2) << least;
  EXPECT_NEAR(fitted_temperature(wrong, labels), 20, 1e-4);
  EXPECT_EQ(fitted_temperature(odd, labels), 1);
  EXPECT_EQ(fitted_temperature(std::span<const float>(), {}), 1);
}

// A Gemm, and SqueezeNet's convolution with a ReLU and a mean behind it.
TEST(Temperature, DividesWhatAModelSays) {
  for (const char* name : {"tinynet", "squeezenet1_1"}) {
    const Model m = build_model(name, {.classes = 20, .img_size = 32, .seed = 3});
    const Graph plain = bind(m, 1), scaled = bind(with_temperature(m, 2.5), 1);
    const std::vector<Tensor> photo = {
        testing::random_tensor({DType::kF32, {1, 3, 32, 32}}, 4, "photo")};
    const Tensor a = interpret_outputs(plain, photo)[0], b = interpret_outputs(scaled, photo)[0];
    double largest = 0;
    for (const float x : a.as<float>()) largest = std::max<double>(largest, std::abs(x));
    EXPECT_GT(largest, 0) << name;
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_NEAR(b.as<float>()[i], a.as<float>()[i] / 2.5, 1e-4 * largest) << name;
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
