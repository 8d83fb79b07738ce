#include "framework/parallel/versioned_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "framework/train/optimizer.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_tensor;

ParameterSpace space(uint64_t seed = 1) {
  Graph g;
  std::vector<ValueId> params;
  for (const auto& [name, n] : {std::pair{"a", 20}, {"b", 7}, {"c", 64}}) {
    params.push_back(g.add_param(name, random_tensor({DType::kF32, {n}}, seed, name)));
  }
  return {g, params, cpu()};
}

void publish_all(VersionedParameters& v, const ParameterSpace& s) { v.publish({0, s.size()}); }

TEST(VersionedParameters, TheNextVersionLiesOverTheOldest) {
  ParameterSpace s = space();
  VersionedParameters v(s.values(), s.size(), 3, cpu());
  const float* const first = v.values(0);
  EXPECT_EQ(first, s.values());
  for (int64_t version = 1; version < 7; ++version) {
    const float* const next = v.next();
    EXPECT_EQ(v.next(), next) << "it is begun once";
    publish_all(v, s);
    EXPECT_EQ(v.newest(), version);
    EXPECT_EQ(v.values(version), next);
    EXPECT_EQ(next == first, version % 3 == 0);
  }
  EXPECT_NE(v.values(4), v.values(5));
  EXPECT_NE(v.values(5), v.values(6));
  EXPECT_THAT(error_of([&] { (void)v.values(3); }), HasSubstr("version 3"));
  (void)v.next();
  EXPECT_THAT(error_of([&] { (void)v.values(4); }), HasSubstr("version 4")) << "it is written over";
}

TEST(VersionedParameters, AVersionThatIsHeldIsNotWrittenOver) {
  ParameterSpace s = space();
  VersionedParameters v(s.values(), s.size(), 2, cpu());
  v.hold(0);
  v.hold(0);
  (void)v.next();
  publish_all(v, s);
  for (int holders = 2; holders > 0; --holders) {
    EXPECT_THAT(error_of([&] { (void)v.next(); }), HasSubstr("version 0 is held"));
    v.give_back(0);
  }
  EXPECT_THAT(error_of([&] { v.give_back(0); }), HasSubstr("not held"));
  EXPECT_EQ(v.next(), s.values());
}

TEST(VersionedParameters, ArePublishedRangeByRange) {
  ParameterSpace s = space();
  VersionedParameters v(s.values(), s.size(), 2, cpu());
  EXPECT_TRUE(v.published({0, s.size()}, 0));
  EXPECT_THAT(error_of([&] { v.publish({0, 1}); }), HasSubstr("begun"));
  (void)v.next();
  v.publish({32, 40});
  v.publish({0, 16});
  EXPECT_FALSE(v.published({0, 40}, 1));
  EXPECT_TRUE(v.published({33, 39}, 1));
  v.publish({16, 32});
  EXPECT_TRUE(v.published({0, 40}, 1));
  EXPECT_FALSE(v.published({0, 41}, 1));
  EXPECT_EQ(v.newest(), 0);
  for (const ParameterRange r : {ParameterRange{39, 41}, {10, 12}}) {
    EXPECT_THAT(error_of([&] { v.publish(r); }), HasSubstr("twice"));
  }
  EXPECT_THAT(error_of([&] { v.publish({40, s.size() + 1}); }), HasSubstr("not there"));
  v.publish({40, s.size()});
  EXPECT_EQ(v.newest(), 1);
  EXPECT_FALSE(v.published({0, 1}, 2));
}

TEST(VersionedParameters, BeginAnewFromTheNewest) {
  for (int steps = 0; steps < 4; ++steps) {
    ParameterSpace s = space();
    VersionedParameters v(s.values(), s.size(), 3, cpu());
    for (int step = 0; step < steps; ++step) {
      std::fill_n(v.next(), s.size(), static_cast<float>(step + 1));
      EXPECT_THAT(error_of([&] { v.restart(); }), HasSubstr("begun"));
      publish_all(v, s);
    }
    const float want = steps == 0 ? *s.values() : static_cast<float>(steps);
    v.restart();
    EXPECT_EQ(v.newest(), 0);
    EXPECT_EQ(v.values(0), s.values());
    EXPECT_EQ(*s.values(), want);
    EXPECT_THAT(error_of([&] { (void)v.values(1); }), HasSubstr("version 1"));
  }
}

// A gradient that depends on the values it is taken at.
void gradient_at(const float* values, int64_t step, const ParameterSpace& s) {
  for (int64_t i = 0; i < s.size(); ++i) {
    *s.gradients(i) = 0.3F * values[i] + static_cast<float>((i + step) % 5 - 2) / 8;
  }
}

// W(t+1) = W(t) - u(g(W(t - d))): by a ring, and by a program that keeps copies.
TEST(VersionedParameters, StepsOnEarlierVersionsEqualASerialProgram) {
  for (int64_t delay = 0; delay < 4; ++delay) {
    ParameterSpace s = space(), serial = space();
    Optimizer optimizer({.kind = OptimizerConfig::Kind::kAdam}, s, cpu());
    Optimizer of_serial({.kind = OptimizerConfig::Kind::kAdam}, serial, cpu());
    VersionedParameters v(s.values(), s.size(), static_cast<int>(delay) + 2, cpu());
    std::deque<std::vector<float>> copies;
    const ParameterRange all{0, s.size()};
    for (int64_t step = 0; step < 9; ++step) {
      const int64_t on = std::max<int64_t>(0, step - delay);
      v.hold(on);
      gradient_at(v.values(on), step, s);
      optimizer.apply(all, optimizer.next(0.1), s.gradients(), v.values(step), v.next());
      v.give_back(on);
      publish_all(v, s);

      copies.emplace_back(serial.values(), serial.values(serial.size()));
      if (std::ssize(copies) > delay + 1) copies.pop_front();
      gradient_at(copies.front().data(), step, serial);
      of_serial.apply(all, of_serial.next(0.1), serial.gradients(), serial.values(),
                      serial.values());
    }
    v.restart();
    for (size_t i = 0; i < s.slots().size(); ++i) {
      EXPECT_TRUE(s.copy(i).same_bytes(serial.copy(i))) << "delay " << delay;
    }
  }
}

}  // namespace
}  // namespace ndtrain
