#include "framework/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/rng.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_tensor;

struct Golden {
  const char* name;
  std::vector<double> values;
};

const std::vector<Golden>& golden() {
  static const std::vector<Golden> all = {
#include "tests/train/golden_optimizers.inc"
  };
  return all;
}

using Kind = OptimizerConfig::Kind;
struct Case {
  double lr;
  OptimizerConfig config;
};

// In the order of tools/golden/optimizers.py.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {0.1, {.kind = Kind::kSgd, .momentum = 0}},
      {0.05, {.kind = Kind::kSgd}},
      {0.05, {.kind = Kind::kSgd, .weight_decay = 0.01}},
      {0.05, {.kind = Kind::kSgd, .nesterov = true, .weight_decay = 0.01}},
      {0.01, {.kind = Kind::kAdam}},
      {0.01,
       {.kind = Kind::kAdam, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}},
      {0.01, {.kind = Kind::kAdamW, .weight_decay = 0.1}},
      {0.05, {.kind = Kind::kSgd, .dampening = 0.3, .weight_decay = 0.01}},
      {0.05, {.kind = Kind::kSgd, .momentum = 0, .dampening = 0.3}},
      {0.01, {.kind = Kind::kAdam, .beta1 = 0.8, .beta2 = 0.5, .amsgrad = true}},
      {0.01,
       {.kind = Kind::kAdamW, .beta1 = 0.8, .beta2 = 0.5, .amsgrad = true, .weight_decay = 0.1}},
      {0.01, {.kind = Kind::kRmsProp, .momentum = 0}},
      {0.01, {.kind = Kind::kRmsProp, .alpha = 0.9, .weight_decay = 0.1}},
      {0.01, {.kind = Kind::kRmsProp, .momentum = 0, .alpha = 0.9, .centered = true}},
      {0.01, {.kind = Kind::kRmsProp, .momentum = 0.5, .centered = true, .epsilon = 1e-6}}};
  return all;
}

constexpr size_t kValues = 5;
const std::vector<float> kStart = {0.5F, -1.25F, 2.0F, 0.0F, -0.03125F};

ParameterSpace one_parameter() {
  Graph g;
  const ValueId w = g.add_param("w", Tensor::of(DType::kF32, {5}, kStart));
  return {g, std::vector{w}, cpu()};
}

void set_gradient(ParameterSpace& p, int64_t step) {
  for (size_t i = 0; i < kValues; ++i) {
    p.gradients()[i] = static_cast<float>((3 * static_cast<int64_t>(i) + 7 * step) % 11 - 5) / 4;
  }
}

void apply(Optimizer& optimizer, ParameterSpace& p, ParameterRange r,
           const HyperParameters& hyper) {
  optimizer.apply(r, hyper, p.gradients(r.begin), p.values(r.begin), p.values(r.begin));
}

void take_step(Optimizer& optimizer, ParameterSpace& p, double lr) {
  apply(optimizer, p, {0, p.size()}, optimizer.next(lr));
}

TEST(Optimizer, TakesPyTorchsSteps) {
  ASSERT_EQ(golden().size(), cases().size());
  for (size_t c = 0; c < cases().size(); ++c) {
    ParameterSpace p = one_parameter();
    Optimizer optimizer(cases()[c].config, p, cpu());
    for (int64_t step = 0; step < 5; ++step) {
      set_gradient(p, step);
      take_step(optimizer, p, cases()[c].lr);
    }
    for (size_t i = 0; i < kValues; ++i) {
      EXPECT_NEAR(p.values()[i], golden()[c].values[i], 2e-6) << golden()[c].name << " " << i;
    }
    for (int64_t i = kValues; i < p.size(); ++i) EXPECT_EQ(*p.values(i), 0) << "padding";
  }
}

// As PyTorch's groups of parameters with a rate each: every parameter as an optimizer of its own.
TEST(Optimizer, EachParameterHasItsRate) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const std::map<std::string, double> rates = {{"a", 0.25}, {"c", 0.5}, {"d", 0.5}};
  const auto start = [](size_t k) {
    return random_tensor({DType::kF32, {5 + 20 * static_cast<int64_t>(k)}}, k, "start");
  };
  for (const Case& c : cases()) {
    Graph g;
    std::vector<ValueId> params;
    for (size_t k = 0; k < names.size(); ++k) params.push_back(g.add_param(names[k], start(k)));
    ParameterSpace together(g, params, cpu());
    Optimizer optimizer(c.config, together, cpu());
    optimizer.scale_rates(rates);
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t i = 0; i < together.size(); ++i) {
        *together.gradients(i) = static_cast<float>((3 * i + 7 * step) % 11 - 5) / 4;
      }
      if (step < 2) {
        take_step(optimizer, together, c.lr);
        continue;
      }
      const HyperParameters hyper = optimizer.next(c.lr);  // in ranges of any kind
      const int64_t half = together.slots()[1].range.begin + ParameterSpace::kAlign;
      apply(optimizer, together, {half, together.size()}, hyper);
      apply(optimizer, together, {0, half}, hyper);
    }
    for (size_t k = 0; k < names.size(); ++k) {
      Graph one;
      ParameterSpace alone(one, std::vector{one.add_param("w", start(k))}, cpu());
      Optimizer own(c.config, alone, cpu());
      const int64_t begin = together.slots()[k].range.begin;
      for (int64_t step = 0; step < 3; ++step) {
        for (int64_t i = 0; i < alone.size(); ++i) {
          *alone.gradients(i) = static_cast<float>((3 * (begin + i) + 7 * step) % 11 - 5) / 4;
        }
        const double rate = rates.contains(names[k]) ? rates.at(names[k]) : 1;
        take_step(own, alone, c.lr * rate);
      }
      EXPECT_TRUE(alone.copy(0).same_bytes(together.copy(k))) << names[k];
    }
  }
}

TEST(Optimizer, ARestoredOneGoesOnWithTheSameBits) {
  for (const Case& c : cases()) {
    ParameterSpace p = one_parameter(), q = one_parameter();
    Optimizer whole(c.config, p, cpu());
    std::map<std::string, Tensor> state;
    Tensor value;
    for (int64_t step = 0; step < 5; ++step) {
      if (step == 3) {
        state = whole.state();
        value = p.copy(0);
      }
      set_gradient(p, step);
      take_step(whole, p, c.lr);
    }
    Optimizer resumed(c.config, q, cpu());
    q.set(0, value);
    resumed.restore(state, 3);
    for (int64_t step = 3; step < 5; ++step) {
      set_gradient(q, step);
      take_step(resumed, q, c.lr);
    }
    EXPECT_TRUE(p.copy(0).same_bytes(q.copy(0)));
  }
}

const std::vector<OptimizerConfig>& averaging() {
  static const std::vector<OptimizerConfig> all = {
      {.kind = Kind::kSgd, .nesterov = true, .ema = 0.5},
      {.kind = Kind::kAdam, .amsgrad = true, .ema = 0.9},
      {.kind = Kind::kAdamW, .weight_decay = 0.1, .ema = 0.999},
      {.kind = Kind::kRmsProp, .centered = true, .ema = 0.75}};
  return all;
}

// Torch's EMA of weights (swa_utils.get_ema_multi_avg_fn), from zero, divided by the sum of its
// shares.
TEST(Optimizer, TheAverageOfTheWeightsIsThatInDouble) {
  for (const OptimizerConfig& config : averaging()) {
    OptimizerConfig without = config;
    without.ema = 0;
    ParameterSpace p = one_parameter(), q = one_parameter();
    Optimizer optimizer(config, p, cpu()), plain(without, q, cpu());
    EXPECT_TRUE(optimizer.averages().empty());
    std::vector<double> average(kValues);
    double shares = 0;
    for (int64_t step = 0; step < 9; ++step) {
      set_gradient(p, step);
      set_gradient(q, step);
      take_step(optimizer, p, 0.05);
      take_step(plain, q, 0.05);
      ASSERT_TRUE(p.copy(0).same_bytes(q.copy(0))) << "the weights are what they were";
      shares = config.ema * shares + 1 - config.ema;
      const Tensor now = optimizer.averages().at("w");
      for (size_t i = 0; i < kValues; ++i) {
        average[i] = config.ema * average[i] + (1 - config.ema) * double{p.values()[i]};
        EXPECT_NEAR(now.as<float>()[i], average[i] / shares, 2e-6) << config.ema << " " << step;
      }
      EXPECT_TRUE(now.same_bytes(optimizer.state().at(average_name("w"))));
    }
    EXPECT_TRUE(plain.averages().empty());
  }
}

TEST(Optimizer, ARestoredAverageGoesOnWithTheSameBits) {
  for (const OptimizerConfig& config : averaging()) {
    ParameterSpace p = one_parameter(), q = one_parameter();
    Optimizer whole(config, p, cpu()), resumed(config, q, cpu());
    for (int64_t step = 0; step < 5; ++step) {
      set_gradient(p, step);
      take_step(whole, p, 0.05);
      if (step != 2) continue;
      q.set(0, p.copy(0));
      resumed.restore(whole.state(), whole.steps());
    }
    for (int64_t step = 3; step < 5; ++step) {
      set_gradient(q, step);
      take_step(resumed, q, 0.05);
    }
    EXPECT_TRUE(whole.averages().at("w").same_bytes(resumed.averages().at("w")));
    auto lacking = whole.state();
    lacking.erase(average_name("w"));
    EXPECT_THAT(error_of([&] { resumed.restore(lacking, 5); }), HasSubstr("w.ema"));
  }
}

TEST(Optimizer, WhatStaysOfAnAverageIsBelowOne) {
  for (const double ema : {1.0, -0.5}) {
    EXPECT_THAT(error_of([&] { OptimizerConfig{.ema = ema}.check(); }), HasSubstr("ema "));
  }
}

// Several parameters, with random values, and gradients that are a function of the step.
struct Several {
  Several() : space(make()) {}
  static ParameterSpace make() {
    Graph g;
    std::vector<ValueId> params;
    for (const auto& [name, shape] : std::vector<std::pair<const char*, Shape>>{
             {"a", {3, 5}}, {"b", {40}}, {"c", {}}, {"d", {7, 31}}}) {
      params.push_back(g.add_param(name, random_tensor({DType::kF32, shape}, 1, name)));
    }
    return {g, params, cpu()};
  }
  void set_gradients(uint64_t step) {
    for (size_t i = 0; i < space.slots().size(); ++i) {
      const ParameterSlot& s = space.slots()[i];
      space.set(i, space.gradients(), random_tensor({DType::kF32, s.shape}, step, s.name));
    }
  }
  std::vector<Tensor> values() const {
    std::vector<Tensor> all;
    for (size_t i = 0; i < space.slots().size(); ++i) all.push_back(space.copy(i));
    return all;
  }
  ParameterSpace space;
};

void expect_same(const Several& a, const Optimizer& of_a, const Several& b, const Optimizer& of_b) {
  for (size_t i = 0; i < a.values().size(); ++i) {
    EXPECT_TRUE(a.values()[i].same_bytes(b.values()[i])) << a.space.slots()[i].name;
  }
  const auto state = of_a.state();
  for (const auto& [name, t] : of_b.state()) EXPECT_TRUE(t.same_bytes(state.at(name))) << name;
}

// [0, size) cut at random places, in a random order.
std::vector<ParameterRange> random_ranges(int64_t size, Rng& rng) {
  std::vector<int64_t> cuts = {0, size};
  for (int i = 0; i < 6; ++i) {
    cuts.push_back(static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(size))));
  }
  std::ranges::sort(cuts);
  std::vector<ParameterRange> ranges;
  for (int64_t i : permutation(static_cast<int64_t>(cuts.size()) - 1, Rng(rng.next_bits()))) {
    const auto at = static_cast<size_t>(i);
    ranges.push_back({cuts[at], cuts[at + 1]});
  }
  return ranges;
}

TEST(Optimizer, RangesInAnyOrderGiveTheBytesOfTheWhole) {
  Rng rng(1, "ranges");
  for (const Case& c : cases()) {
    Several whole, parts;
    Optimizer of_whole(c.config, whole.space, cpu()), of_parts(c.config, parts.space, cpu());
    for (uint64_t step = 0; step < 4; ++step) {
      whole.set_gradients(step);
      parts.set_gradients(step);
      take_step(of_whole, whole.space, c.lr);
      const HyperParameters hyper = of_parts.next(c.lr);
      for (const ParameterRange r : random_ranges(parts.space.size(), rng)) {
        apply(of_parts, parts.space, r, hyper);
      }
    }
    expect_same(whole, of_whole, parts, of_parts);
  }
}

TEST(Optimizer, AnUpdateThatIsAppliedLaterIsStillItsStepsOwn) {
  for (const Case& c : cases()) {
    Several prompt, late;
    Optimizer of_prompt(c.config, prompt.space, cpu()), of_late(c.config, late.space, cpu());
    prompt.set_gradients(1);
    late.set_gradients(1);
    take_step(of_prompt, prompt.space, 0.1);
    take_step(of_prompt, prompt.space, 0.2);
    const HyperParameters first = of_late.next(0.1), second = of_late.next(0.2);
    EXPECT_EQ(first.step, 1);
    EXPECT_EQ(second.step, 2);
    for (const ParameterRange r : {ParameterRange{50, late.space.size()}, {0, 50}}) {
      for (const HyperParameters& hyper : {first, second}) apply(of_late, late.space, r, hyper);
    }
    expect_same(prompt, of_prompt, late, of_late);
  }
}

// Two halves of one space, each with an optimizer that keeps its own.
TEST(Optimizer, OnesThatKeepPartsGiveTheBytesOfOneThatKeepsAll) {
  for (const Case& c : cases()) {
    Several whole, parts;
    const ParameterRange front{0, 64}, back{64, parts.space.size()};
    Optimizer of_whole(c.config, whole.space, cpu()), of_front(c.config, parts.space, cpu()),
        of_back(c.config, parts.space, cpu());
    std::vector<std::vector<float>> fronts;
    of_front.keep_only(std::vector{front},
                       [&](std::span<float> m) { fronts.emplace_back(m.begin(), m.end()); });
    size_t moment = 0;
    of_back.keep_only(std::vector{ParameterRange{}, back}, [&](std::span<float> m) {
      std::copy_n(fronts[moment++].begin(), front.end, m.begin());
    });
    for (uint64_t step = 0; step < 4; ++step) {
      whole.set_gradients(step);
      parts.set_gradients(step);
      take_step(of_whole, whole.space, c.lr);
      apply(of_front, parts.space, front, of_front.next(c.lr));
      const HyperParameters hyper = of_back.next(c.lr);
      for (const ParameterRange r : {ParameterRange{96, back.end}, {64, 96}}) {
        apply(of_back, parts.space, r, hyper);
      }
      if (step != 1) continue;
      const auto state = of_whole.state();
      of_front.restore(state, 2);  // what it has
      of_back.restore(state, 2);
    }
    EXPECT_THAT(error_of([&] {
                  apply(of_back, parts.space, {48, 80}, of_back.next(1));
                }),
                HasSubstr("elements 48 to 80 are not kept here"));
    (void)of_front.state();
    expect_same(whole, of_whole, parts, of_back);
  }
}

TEST(Optimizer, WritesTheNextVersionWhereItIsTold) {
  for (const Case& c : cases()) {
    Several over, beside;
    Optimizer of_over(c.config, over.space, cpu()), of_beside(c.config, beside.space, cpu());
    over.set_gradients(1);
    beside.set_gradients(1);
    take_step(of_over, over.space, c.lr);
    const std::vector<Tensor> before = beside.values();
    const DeviceTensor next(cpu(), {DType::kF32, {beside.space.size()}});
    auto* const to = static_cast<float*>(next.data());
    const ParameterSpace& s = beside.space;
    of_beside.apply({0, s.size()}, of_beside.next(c.lr), s.gradients(), s.values(), to);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(s.copy(i).same_bytes(before[i])) << "what was read has changed";
      EXPECT_TRUE(s.copy(i, to).same_bytes(over.space.copy(i)));
    }
  }
}

TEST(Optimizer, AStepThatIsLeftOutDoesNotCount) {
  const ParameterSpace p = one_parameter();
  Optimizer adam({.kind = Kind::kAdam}, p, cpu());
  const HyperParameters first = adam.next(0.1);
  adam.leave_out();
  EXPECT_EQ(adam.steps(), 0);
  const HyperParameters again = adam.next(0.1), second = adam.next(0.1);
  EXPECT_EQ(again.step, 1);
  EXPECT_EQ(again.values, first.values);
  EXPECT_NE(second.values, first.values) << "the corrections change with the step";
}

TEST(Optimizer, ProfilesTheRangesOfTheLastStep) {
  Several s;
  Optimizer sgd({.kind = Kind::kSgd}, s.space, cpu());
  sgd.set_profiling(true);
  EXPECT_TRUE(sgd.profile().empty());
  take_step(sgd, s.space, 0.1);
  EXPECT_EQ(sgd.profile().size(), 1U);
  const HyperParameters hyper = sgd.next(0.1);
  apply(sgd, s.space, {0, 50}, hyper);
  apply(sgd, s.space, {50, 100}, hyper);
  ASSERT_EQ(sgd.profile().size(), 2U);
  for (const Executor::NodeTime& t : sgd.profile()) {
    EXPECT_EQ(t.op, "SgdStep");
    EXPECT_GT(t.seconds, 0);
  }
}

TEST(Optimizer, StateOfAnotherOptimizerIsRefused) {
  const ParameterSpace p = one_parameter();
  const Optimizer sgd({.kind = Kind::kSgd}, p, cpu());
  Optimizer adam({.kind = Kind::kAdam}, p, cpu());
  EXPECT_THAT(error_of([&] { adam.restore(sgd.state(), 1); }), HasSubstr("'w.v'"));
}

TEST(Optimizer, WhatDoesNotGoTogetherIsRefused) {
  const auto refusal = [](const OptimizerConfig& c) {
    return error_of([&] { Optimizer(c, one_parameter(), cpu()); });
  };
  EXPECT_EQ(refusal({.kind = Kind::kSgd, .nesterov = true}), "no error");
  EXPECT_THAT(refusal({.kind = Kind::kSgd, .dampening = 0.1, .nesterov = true}),
              HasSubstr("without dampening"));
  EXPECT_THAT(refusal({.kind = Kind::kAdam, .dampening = 0.1}), HasSubstr("dampening is of sgd"));
  EXPECT_THAT(refusal({.kind = Kind::kSgd, .dampening = 1.5}), HasSubstr("dampening 1.5"));
  EXPECT_THAT(refusal({.kind = Kind::kRmsProp, .amsgrad = true}), HasSubstr("adam and adamw"));
  EXPECT_THAT(refusal({.kind = Kind::kAdamW, .centered = true}), HasSubstr("of rmsprop"));
  EXPECT_THAT(refusal({.kind = Kind::kRmsProp, .alpha = 1}), HasSubstr("alpha 1: from 0 to below"));
  EXPECT_THAT(refusal({.kind = Kind::kAdam, .beta1 = 1}), HasSubstr("beta 1: from 0 to below"));
  EXPECT_THAT(refusal({.kind = Kind::kSgd, .beta2 = 0.9}), HasSubstr("betas are of adam"));
  EXPECT_THAT(refusal({.kind = Kind::kAdam, .epsilon = 0}), HasSubstr("epsilon 0: above 0"));
  EXPECT_THAT(refusal({.kind = Kind::kSgd, .epsilon = 1e-3}), HasSubstr("sgd has no epsilon"));
}

TEST(Optimizer, NamesAreKnown) {
  EXPECT_EQ(optimizer_named("rmsprop"), Kind::kRmsProp);
  EXPECT_EQ(optimizer_named("adamw"), Kind::kAdamW);
  EXPECT_THAT(error_of([] { optimizer_named("adma"); }), HasSubstr("'adma'"));
}

}  // namespace
}  // namespace ndtrain
