#include "framework/sparse/optimizers/sparse_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "framework/train/optimizer.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;

using Kind = OptimizerConfig::Kind;

std::vector<OptimizerConfig> configs() {
  return {
      {.kind = Kind::kSgd, .momentum = 0},
      {.kind = Kind::kSgd, .weight_decay = 0.01},
      {.kind = Kind::kSgd, .nesterov = true, .weight_decay = 0.01},
      {.kind = Kind::kSgd, .dampening = 0.3, .weight_decay = 0.01},
      {.kind = Kind::kSgd, .momentum = 0, .dampening = 0.3},
      {.kind = Kind::kAdam, .weight_decay = 0.1},
      {.kind = Kind::kAdam, .beta1 = 0.8, .beta2 = 0.5, .amsgrad = true},
      {.kind = Kind::kAdamW, .weight_decay = 0.1},
      {.kind = Kind::kRmsProp, .momentum = 0.5, .alpha = 0.9, .weight_decay = 0.1},
      {.kind = Kind::kRmsProp, .momentum = 0, .centered = true},
  };
}

constexpr double kLr = 0.05;

std::vector<float> random(int64_t n, uint64_t seed) {
  const Rng rng(seed, "values");
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(rng.normal(i));
  return values;
}

Selection all_of(const std::vector<float>& gradient) {
  Selection s{.indices = std::vector<uint32_t>(gradient.size()), .values = gradient};
  std::iota(s.indices.begin(), s.indices.end(), 0);
  return s;
}

// About one in `every` elements.
Selection some_of(int64_t n, int every, uint64_t seed) {
  const Rng rng(seed, "some");
  Selection s;
  for (int64_t i = 0; i < n; ++i) {
    if (rng.bits(2 * i) % every != 0) continue;
    s.indices.push_back(static_cast<uint32_t>(i));
    s.values.push_back(static_cast<float>(rng.normal(2 * i + 1)));
  }
  return s;
}

ParameterSpace one_parameter(int64_t n) {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of(DType::kF32, {n}, random(n, 99)));
  return {g, std::vector{w}, cpu()};
}

// One tensor with its optimizer.
struct Dense {
  Dense(const OptimizerConfig& config, int64_t n)
      : parameters(one_parameter(n)), optimizer(config, parameters, cpu()) {}
  void step(const std::vector<float>& gradient, double lr = kLr, float scale = 1) {
    std::copy(gradient.begin(), gradient.end(), parameters.gradients());
    HyperParameters hyper = optimizer.next(lr);
    hyper.gradient_scale = scale;
    optimizer.apply({0, parameters.size()}, hyper, parameters.gradients(), parameters.values(),
                    parameters.values());
  }
  std::span<float> values() const {
    return {parameters.values(), static_cast<size_t>(parameters.count())};
  }
  std::span<const float> moment(const std::string& name) {
    state = optimizer.state();
    return state.at("w." + name).as<float>();
  }
  ParameterSpace parameters;
  Optimizer optimizer;
  std::map<std::string, Tensor> state;
};

struct Sparse : Dense {
  Sparse(const OptimizerConfig& config, const SparseOptimizerOptions& options, int64_t n)
      : Dense(config, n), sparse(optimizer, parameters, cpu(), options), worker(sparse) {}
  void step(const Selection& s, double lr = kLr, float scale = 1) {
    HyperParameters hyper = optimizer.next(lr);
    hyper.gradient_scale = scale;
    sparse.apply(0, s, hyper, values(), worker);
  }
  SparseOptimizer sparse;
  SparseOptimizer::Worker worker;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(SparseOptimizer, OfAllElementsGivesTheDenseOptimizersBytes) {
  for (const OptimizerConfig& config : configs()) {
    for (const int64_t n : {1, 5, 2047, 2048, 5000}) {
      Sparse sparse(config, {}, n);
      Dense dense(config, n);
      for (int step = 0; step < 6; ++step) {
        const std::vector<float> gradient = random(n, step);
        const double lr = kLr / (1 + step);
        const float scale = step == 3 ? 0.37F : 1;
        sparse.step(all_of(gradient), lr, scale);
        dense.step(gradient, lr, scale);
        ASSERT_TRUE(same_bits(sparse.values(), dense.values())) << n << " at step " << step;
      }
      for (const std::string& name : moment_names(config)) {
        EXPECT_TRUE(same_bits(sparse.moment(name), dense.moment(name))) << name;
      }
    }
  }
}

TEST(SparseOptimizer, LeavesOtherElementsAsTheyAre) {
  for (const OptimizerConfig& config : configs()) {
    Sparse sparse(config, {}, 3000);
    for (int step = 0; step < 5; ++step) sparse.step(some_of(3000, 3, step));
    const std::vector<float> before(sparse.values().begin(), sparse.values().end());
    const auto moments = sparse.optimizer.state();
    const Selection s = some_of(3000, 50, 77);
    sparse.step(s);
    const auto after = sparse.optimizer.state();
    size_t next = 0;
    for (uint32_t i = 0; i < 3000; ++i) {
      const bool touched = next < s.indices.size() && s.indices[next] == i;
      next += touched ? 1 : 0;
      if (touched) continue;
      EXPECT_EQ(sparse.values()[i], before[i]) << i;
      for (const std::string& name : moment_names(config)) {
        EXPECT_EQ(after.at("w." + name).as<float>()[i], moments.at("w." + name).as<float>()[i]);
      }
    }
  }
}

// SGD of one element in double, as it is defined.
struct Element {
  double w = 0, b = 0;
  int64_t touched = 0;
  void step(double g, int64_t t, const OptimizerConfig& c, const SparseOptimizerOptions& o) {
    const double mu = c.momentum;
    g += c.weight_decay * w;
    if (o.lazy && touched != 0) {
      const auto missed = static_cast<double>(t - touched - 1);
      if (o.catch_up) w -= kLr * b * mu * (1 - std::pow(mu, missed)) / (1 - mu);
      b *= std::pow(mu, missed);
    }
    b = touched == 0 ? g : mu * b + (1 - c.dampening) * g;
    w -= kLr * (c.nesterov ? g + mu * b : b);
    touched = t;
  }
};

TEST(SparseOptimizer, SgdTakesTheStepsOfItsDefinition) {
  struct Case {
    OptimizerConfig config;
    SparseOptimizerOptions options;
  };
  const std::vector<Case> cases = {
      {{.kind = Kind::kSgd, .weight_decay = 0.02}, {}},
      {{.kind = Kind::kSgd, .dampening = 0.4}, {}},
      {{.kind = Kind::kSgd, .nesterov = true}, {.lazy = true}},
      {{.kind = Kind::kSgd, .momentum = 0.8, .dampening = 0.4}, {.lazy = true}},
      {{.kind = Kind::kSgd, .momentum = 0.8}, {.lazy = true, .catch_up = true}},
      {{.kind = Kind::kSgd, .momentum = 0}, {.lazy = true, .catch_up = true}}};
  constexpr int64_t kElements = 2100;
  for (size_t number = 0; number < cases.size(); ++number) {
    const auto& [config, options] = cases[number];
    Sparse sparse(config, options, kElements);
    std::vector<Element> elements(kElements);
    for (int64_t i = 0; i < kElements; ++i) elements[i].w = sparse.values()[i];
    for (int64_t t = 1; t <= 30; ++t) {
      const Selection s = some_of(kElements, 4, t);
      sparse.step(s);
      for (size_t i = 0; i < s.indices.size(); ++i) {
        elements[s.indices[i]].step(s.values[i], t, config, options);
      }
    }
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_NEAR(sparse.values()[i], elements[i].w, 1e-5) << i << " of case " << number;
    }
  }
}

// What was missed were steps with a gradient of 0.
TEST(SparseOptimizer, CatchesUpWithTheDenseOptimizer) {
  const OptimizerConfig config{.kind = Kind::kSgd};
  constexpr int64_t kElements = 500;
  Sparse sparse(config, {.lazy = true, .catch_up = true}, kElements);
  Sparse lazy(config, {.lazy = true}, kElements);
  Dense dense(config, kElements);
  for (int64_t t = 1; t <= 25; ++t) {
    const Selection s = t == 25 ? all_of(random(kElements, 25)) : some_of(kElements, 5, t);
    std::vector<float> gradient(kElements, 0);
    for (size_t i = 0; i < s.indices.size(); ++i) gradient[s.indices[i]] = s.values[i];
    sparse.step(s);
    lazy.step(s);
    dense.step(gradient);
  }
  double off = 0;
  const auto momentum = dense.moment("m"), of_lazy = lazy.moment("m");
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_NEAR(sparse.values()[i], dense.values()[i], 1e-5);
    EXPECT_NEAR(of_lazy[i], momentum[i], 1e-5);
    off += std::fabs(lazy.values()[i] - dense.values()[i]);
  }
  EXPECT_GT(off, 0.01 * static_cast<double>(kElements));  // without, they differ
}

// PyTorch's formula with the tensor's steps, of an element that has few gradients.
TEST(SparseOptimizer, AdamCorrectsTheBiasByTheTensorsSteps) {
  const OptimizerConfig config{.kind = Kind::kAdam, .amsgrad = true};
  Sparse sparse(config, {}, 2);
  double w = sparse.values()[1], m = 0, v = 0, largest = 0;
  for (int64_t t = 1; t <= 20; ++t) {
    const auto g = static_cast<float>(1.0 / static_cast<double>(t));
    const bool both = t % 4 == 1;
    sparse.step(both ? Selection{{0, 1}, {1, g}} : Selection{{0}, {1}});
    if (!both) continue;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    largest = std::max(largest, v);
    const double corrected = largest / (1 - std::pow(0.999, static_cast<double>(t)));
    w -= kLr / (1 - std::pow(0.9, static_cast<double>(t))) * m / (std::sqrt(corrected) + 1e-8);
    EXPECT_NEAR(sparse.values()[1], w, 1e-5) << t;
  }
}

TEST(SparseOptimizer, GoesOnFromItsStateAsIfUnbroken) {
  std::vector<std::pair<OptimizerConfig, SparseOptimizerOptions>> all;
  for (const OptimizerConfig& config : configs())
    all.emplace_back(config, SparseOptimizerOptions());
  all.push_back({{.kind = Kind::kSgd}, {.lazy = true, .catch_up = true}});
  for (const auto& [config, options] : all) {
    Sparse unbroken(config, options, 900), resumed(config, options, 900);
    for (int step = 0; step < 4; ++step) unbroken.step(some_of(900, 3, step));
    std::ranges::copy(unbroken.values(), resumed.values().begin());
    resumed.optimizer.restore(unbroken.optimizer.state(), unbroken.optimizer.steps());
    resumed.sparse.restore(unbroken.sparse.state());
    for (int step = 4; step < 8; ++step) {
      unbroken.step(some_of(900, 3, step));
      resumed.step(some_of(900, 3, step));
    }
    EXPECT_TRUE(same_bits(unbroken.values(), resumed.values()));
  }
}

TEST(SparseOptimizer, SlotsMayBeOfSeveralThreads) {
  constexpr int kSlots = 4;
  constexpr int64_t kElements = 4000;
  Graph g;
  std::vector<ValueId> all;
  for (int s = 0; s < kSlots; ++s) {
    all.push_back(g.add_param("w" + std::to_string(s),
                              Tensor::of(DType::kF32, {kElements}, random(kElements, s))));
  }
  const auto values_after = [&](bool threads) {
    const ParameterSpace parameters(g, all, cpu());
    Optimizer dense({.kind = Kind::kAdam}, parameters, cpu());
    SparseOptimizer optimizer(dense, parameters, cpu());
    std::vector<HyperParameters> hyper;
    for (int step = 0; step < 10; ++step) hyper.push_back(dense.next(kLr));
    const auto steps = [&](int s) {
      SparseOptimizer::Worker worker(optimizer);
      const ParameterRange range = parameters.slots()[s].range;
      for (int step = 0; step < 10; ++step) {
        optimizer.apply(s, some_of(kElements, 5, 100 * s + step), hyper[step],
                        {parameters.values(range.begin), kElements}, worker);
      }
    };
    std::vector<std::jthread> running;
    for (int s = 0; s < kSlots; ++s) {
      running.emplace_back(steps, s);
      if (!threads) running.back().join();
    }
    running.clear();
    return std::vector<float>(parameters.values(), parameters.values() + parameters.size());
  };
  EXPECT_EQ(values_after(true), values_after(false));
}

TEST(SparseOptimizer, RefusesWhatDoesNotGoTogether) {
  const auto made = [](const OptimizerConfig& config, const SparseOptimizerOptions& options) {
    return error_of([&] { Sparse(config, options, 3); });
  };
  const SparseOptimizerOptions catch_up{.lazy = true, .catch_up = true};
  EXPECT_THAT(made({.kind = Kind::kAdam}, {.lazy = true}), HasSubstr("lazy momentum is of sgd"));
  EXPECT_THAT(made({.kind = Kind::kSgd}, {.catch_up = true}), HasSubstr("which is off"));
  EXPECT_THAT(made({.kind = Kind::kSgd, .nesterov = true}, catch_up), HasSubstr("Nesterov"));
  EXPECT_THAT(made({.kind = Kind::kSgd, .momentum = 1}, catch_up), HasSubstr("momentum 1 never"));
  EXPECT_THAT(made({.kind = Kind::kAdam, .dampening = 0.1}, {}), HasSubstr("dampening is of sgd"));
  Sparse sparse({.kind = Kind::kSgd}, catch_up, 3);
  sparse.step({{0}, {1}}, 0.1);
  EXPECT_THAT(error_of([&] { sparse.step({{0}, {1}}, 0.2); }), HasSubstr("from 0.1 to 0.2"));
  EXPECT_THAT(error_of([&] { sparse.sparse.restore({}); }), HasSubstr("'w.touched' is missing"));
}

}  // namespace
}  // namespace ndtrain
