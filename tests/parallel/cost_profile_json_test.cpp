#include "framework/parallel/cost_profile_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/testing/memory_fs.h"
#include "tests/parallel/random_costs.h"
#include "tests/support/replaced.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

std::string good_text() {
  return to_json(testing::network({{100, 0.25, 0.5}, {7, 0.125, 0.0625}}, 1e-3, 1e-8));
}

std::string refusal(const std::string& text) {
  try {
    parse_cost_profile(text, "c.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::string with(const std::string& what, const std::string& by) {
  return support::replaced(good_text(), what, by);
}

void expect_equal(const CostProfile::Collective& a, const CostProfile::Collective& b) {
  EXPECT_EQ(a.alpha_s, b.alpha_s);
  EXPECT_EQ(a.beta_s_per_byte, b.beta_s_per_byte);
}

TEST(CostProfileJson, EveryNumberComesBackAsItWasWritten) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const CostProfile was = testing::random_costs(seed, 20);
    const CostProfile is = parse_cost_profile(to_json(was), "c.json");
    EXPECT_EQ(is.source, was.source);
    EXPECT_EQ(is.ranks, was.ranks);
    EXPECT_EQ(is.optimizer_s_per_element, was.optimizer_s_per_element);
    expect_equal(is.reduce_scatter, was.reduce_scatter);
    expect_equal(is.all_gather, was.all_gather);
    expect_equal(is.all_reduce, was.all_reduce);
    expect_equal(is.reduce, was.reduce);
    expect_equal(is.broadcast, was.broadcast);
    ASSERT_EQ(is.layers.size(), was.layers.size());
    for (size_t l = 0; l < is.layers.size(); ++l) {
      EXPECT_EQ(is.layers[l].elements, was.layers[l].elements);
      EXPECT_EQ(is.layers[l].forward_s, was.layers[l].forward_s);
      EXPECT_EQ(is.layers[l].backward_s, was.layers[l].backward_s);
    }
    EXPECT_EQ(to_json(is), to_json(was));
  }
}

TEST(CostProfileJson, BadProfilesAreRefusedNamingFileAndEntry) {
  ASSERT_EQ(refusal(good_text()), "accepted");
  EXPECT_THAT(refusal("{"), HasSubstr("cost profile c.json is no JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("c.json lacks collectives"));
  EXPECT_THAT(refusal("{\"format\": 2, \"stages\": 1}"), HasSubstr("has format 2"));
  EXPECT_THAT(refusal(with("\"source\": \"test\"", "\"source\": 3")), HasSubstr("source"));
  EXPECT_THAT(refusal(with("\"ranks\"", "\"rank\"")), HasSubstr("has rank, which is no entry"));
  EXPECT_THAT(refusal(with("\"ranks\": 2", "\"ranks\": 0")), HasSubstr("ranks = 0"));
  EXPECT_THAT(refusal(with("\"ranks\": 2", "\"ranks\": 2.5")), HasSubstr("ranks = 2.5"));
  EXPECT_THAT(refusal(with("\"ranks\": 2", "\"ranks\": 4294967297")), HasSubstr("ranks"));
  EXPECT_THAT(refusal(with("\"all_gather\"", "\"gather\"")), HasSubstr("collectives/gather"));
  EXPECT_THAT(refusal(with("\"alpha_s\"", "\"alpha\"")),
              HasSubstr("collectives/reduce_scatter/alpha,"));
  EXPECT_THAT(refusal(with("\"alpha_s\": 0.0005", "\"alpha_s\": -1")),
              HasSubstr("reduce_scatter/alpha_s is -1"));
  EXPECT_THAT(refusal(with("\"forward_s\": 0.25", "\"forward_s\": \"fast\"")),
              HasSubstr("layers/0/forward_s = \"fast\""));
  EXPECT_THAT(refusal(with("\"forward_s\": 0.25", "\"forward_s\": 1e999")), HasSubstr("c.json"));
  EXPECT_THAT(refusal(with("\"elements\": 7", "\"elements\": -1")), HasSubstr("layers/1/elements"));
  EXPECT_THAT(refusal(with("\"elements\": 7", "\"elements\": 1e19")),
              HasSubstr("layers/1/elements"));
  const std::string most = std::to_string(limits::kElements);
  EXPECT_THAT(refusal(with("\"elements\": 7", "\"elements\": " + most)),
              HasSubstr("layers/1 has " + most));
  EXPECT_THAT(refusal(with("\"layers\": [", "\"layers\": 3, \"x\": [")), HasSubstr("x"));
}

TEST(CostProfileJson, FilesBeyondTheLimitAreRefused) {
  const auto padded = [](int64_t size) {
    const std::string good = good_text();
    return good + std::string(static_cast<size_t>(size) - good.size(), ' ');
  };
  EXPECT_EQ(refusal(padded(limits::kProfileFile - 1)), "accepted");
  EXPECT_EQ(refusal(padded(limits::kProfileFile)), "accepted");
  EXPECT_THAT(refusal(padded(limits::kProfileFile + 1)), HasSubstr("at most"));
}

TEST(CostProfileJson, AnAbsentFileIsNamed) {
  MemoryFs fs;
  EXPECT_THROW(
      {
        try {
          load_cost_profile(fs, "none.json");
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("none.json"));
          throw;
        }
      },
      Error);
}

TEST(CostProfileJson, WhatIsNoProfileIsNotWritten) {
  CostProfile costs = testing::network({{1, 0, 0}}, 0, 0);
  costs.layers[0].backward_s = NAN;
  EXPECT_THROW(to_json(costs), Error);
  costs.layers.clear();
  EXPECT_THROW(to_json(costs), Error);
}

TEST(CostProfile, TheLastLayerLiesAtTheBeginningOfTheSpace) {
  const CostProfile costs = testing::network({{100, 1, 2}, {7, 3, 4}, {20, 5, 6}}, 0, 0);
  EXPECT_THAT(layer_ranges(costs),
              ::testing::ElementsAre(ParameterRange{27, 127}, ParameterRange{20, 27},
                                     ParameterRange{0, 20}));
  EXPECT_EQ(costs.parameter_count(), 127);
  EXPECT_EQ(costs.backward_s(), 12);
  EXPECT_EQ(costs.computing_s(), 21);
}

}  // namespace
}  // namespace ndtrain
