#include "tuner/models/delta_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "tests/deltas/some_model.h"

namespace ndtrain::tuner {
namespace {

using testing::drawn;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::some_model;

Digest file(const std::string& name) { return sha256(name); }

DeltaEdge step(const std::string& from, const std::string& to, int64_t bytes) {
  return {sha256(from + to), file(from), file(to), bytes};
}

class DeltaGraphTest : public ::testing::Test {
 protected:
  void add(const DeltaEdge& s) { deltas_.tried({s.base, s.result}, s); }
  std::vector<Digest> way(const std::string& to, const std::vector<std::string>& held,
                          int64_t rest) {
    std::vector<Digest> have, deltas;
    for (const std::string& name : held) have.push_back(file(name));
    for (const DeltaEdge& s : deltas_.cheapest(file(to), have, rest)) deltas.push_back(s.delta);
    return deltas;
  }

  MemoryFs fs_;
  ModelStore models_{fs_, "models"};
  DeltaGraph deltas_{models_};
};

TEST_F(DeltaGraphTest, TheSmallestOfFullOneDeltaAndAChainIsTaken) {
  add(step("1", "2", 1000));
  add(step("2", "3", 1000));
  add(step("3", "4", 1000));
  EXPECT_THAT(way("4", {"1"}, 10'000), ElementsAre(sha256("12"), sha256("23"), sha256("34")));
  EXPECT_THAT(way("4", {"1", "3"}, 10'000), ElementsAre(sha256("34")));
  EXPECT_THAT(way("4", {"1"}, 3000), IsEmpty()) << "the file itself is no larger";
  EXPECT_THAT(way("4", {"0"}, 10'000), IsEmpty());
  EXPECT_THAT(way("4", {}, 10'000), IsEmpty());
  add(step("1", "4", 2500));
  EXPECT_THAT(way("4", {"1"}, 10'000), ElementsAre(sha256("14")));
  add(step("1", "3", 400));
  EXPECT_THAT(way("4", {"1"}, 10'000), ElementsAre(sha256("13"), sha256("34")));
}

TEST_F(DeltaGraphTest, ManyWaysOfEqualStepsAreNoTrouble) {
  for (int from = 0; from < 60; ++from) {
    for (int to = from + 1; to < 60; ++to) {
      add(step(std::to_string(from), std::to_string(to), 1000 * (to - from)));
      add(step(std::to_string(to), std::to_string(from), 1000));
    }
  }
  EXPECT_EQ(way("59", {"0"}, 1'000'000).size(), 1U) << "one step costs less than many";
}

class RealWaysTest : public DeltaGraphTest {
 protected:
  // A version whose classifier is drawn anew, or not.
  PublishedModel version(uint64_t seed, uint64_t parent) {
    Model m = some_model();
    m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(seed, "fc"));
    const Digest digest = models_.add(export_model(m)).or_throw();
    PublishedModel v{.parent = parent, .extractor = digest, .head = digest};
    return versions_.add(v, true).or_throw();
  }
  DeltaEdge make(const ModelPair& pair) {
    const auto made = make_delta_edge(models_, pair).or_throw();
    deltas_.tried(pair, made);
    return made.value();
  }

  Versions versions_{fs_, "versions.json"};
};

TEST_F(RealWaysTest, DeltasAreFoundAgainAfterARestart) {
  const PublishedModel a = version(1, 0), b = version(2, 1);
  const std::vector<ModelPair> pairs = deltas_.from_parent(versions_, b);
  ASSERT_THAT(pairs, ElementsAre(ModelPair{a.head, b.head}));
  const DeltaEdge made = make(pairs[0]);
  EXPECT_LT(made.bytes, models_.size(b.head) / 2);
  DeltaGraph again(models_);
  EXPECT_TRUE(again.was_tried(pairs[0]));
  const std::vector<Digest> held = {a.head};
  ASSERT_EQ(again.cheapest(b.head, held, models_.size(b.head)).size(), 1U);
  EXPECT_EQ(again.cheapest(b.head, held, models_.size(b.head))[0].delta, made.delta);
}

TEST_F(RealWaysTest, AStoreThatIsBehindIsWorthADeltaFromItsNewestVersion) {
  const PublishedModel a = version(1, 0), b = version(2, 1), c = version(3, 2);
  const std::vector<Digest> held = {a.head, b.head, file("foreign")};
  EXPECT_EQ(deltas_.worth_trying(versions_, c.head, held),
            std::optional(ModelPair{b.head, c.head}));
  make({b.head, c.head});
  EXPECT_FALSE(deltas_.worth_trying(versions_, c.head, held)) << "it was tried";
  EXPECT_FALSE(deltas_.worth_trying(versions_, file("foreign"), held));
  EXPECT_FALSE(deltas_.worth_trying(versions_, c.head, {}));
}

TEST_F(RealWaysTest, DeltasOfRemovedModelsGo) {
  const PublishedModel a = version(1, 0), b = version(2, 1);
  const DeltaEdge made = make({a.head, b.head});
  deltas_.collect();
  EXPECT_TRUE(models_.has(made.delta));
  models_.remove(a.head).or_throw();
  deltas_.collect();
  EXPECT_FALSE(models_.has(made.delta));
  EXPECT_THAT(deltas_.cheapest(b.head, std::vector{a.head}, 1 << 20), IsEmpty());
}

TEST_F(RealWaysTest, WhatIsNoSmallerThanTheFileIsNotKept) {
  const Digest a = models_.add(export_model(some_model(1))).or_throw();
  const Digest b = models_.add("not a model").or_throw();
  EXPECT_FALSE(make_delta_edge(models_, {a, b}).or_throw());
  EXPECT_EQ(make_delta_edge(models_, {a, file("gone")}).status().code(), Code::kNotFound);
  EXPECT_EQ(models_.list().size(), 2U);
}

}  // namespace
}  // namespace ndtrain::tuner
