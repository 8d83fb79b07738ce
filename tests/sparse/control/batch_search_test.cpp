#include "framework/sparse/control/batch_search.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/core/error.h"
#include "tests/sparse/control/exhaustive_search.h"
#include "tests/sparse/control/known_profiles.h"

namespace ndtrain {
namespace {

using Over = ConvergenceProfile::Over;
using Models = std::vector<ThroughputModel>;
using Batch = std::vector<int64_t>;

const SelectionSizes kSizes{
    .elements = {9408, 64, 2'359'296, 512'000, 1000}, .value_bytes = 4, .index_bytes = 4};

// J by the code at some batches is J by the test.
void expect_same_objective(const BatchObjective& objective, const PenaltyOf& h) {
  for (const double part : {0.1, 0.4, 0.9}) {
    Batch batch;
    int64_t rows = 0;
    for (const int64_t most : objective.largest()) {
      batch.push_back(1 + static_cast<int64_t>(part * static_cast<double>(most - 1)));
      rows += batch.back();
    }
    if (static_cast<double>(rows) > objective.most_rows()) continue;
    EXPECT_NEAR(objective(batch), loss_rate(objective.throughput(), batch, h), 1e-12);
  }
}

struct Ranks {
  Models models;
  Batch largest;
};

// Of curves that are in proportion, in none, steep, flat, of one rank far behind.
const Ranks kRanks[] = {
    {{{.alpha = 64, .beta = 800}, {.alpha = 64, .beta = 800}}, {256, 256}},
    {{{.alpha = 37.3, .beta = 911.7}, {.alpha = 61.1, .beta = 383.9}}, {256, 200}},
    {{{.alpha = 200, .beta = 400}, {.alpha = 20, .beta = 300}}, {180, 240}},
    {{{.alpha = 16, .beta = 100}, {.alpha = 100, .beta = 1500}}, {64, 512}},
    {{{.alpha = 30, .beta = 500}, {.alpha = 45, .beta = 333}, {.alpha = 16, .beta = 210}},
     {96, 80, 64}},
    {{{.alpha = 51.7, .beta = 517}, {.alpha = 20.2, .beta = 173}, {.alpha = 90, .beta = 701}},
     {80, 64, 96}},
    {{{.alpha = 16, .beta = 300},
      {.alpha = 20, .beta = 150},
      {.alpha = 18, .beta = 211.3},
      {.alpha = 25, .beta = 402}},
     {32, 24, 28, 36}},
    {{{.alpha = 16, .beta = 100},
      {.alpha = 16, .beta = 100},
      {.alpha = 40, .beta = 400},
      {.alpha = 33, .beta = 271.8}},
     {24, 24, 32, 32}},
};

int64_t sum_of(const Batch& b) {
  int64_t sum = 0;
  for (const int64_t x : b) sum += x;
  return sum;
}

TEST(BestBatch, IsWithinTwoPercentOfTheLeastOfAllWholeBatches) {
  uint64_t seed = 0;
  for (const Ranks& ranks : kRanks) {
    for (const KnownPenalty& penalty :
         {KnownPenalty{}, KnownPenalty{.of_batch = 0.5, .of_link = 0.1},
          KnownPenalty{.of_batch = 0, .of_link = 0.1, .decay = 1}}) {
      const LossPenalty h(known_profile(Over::kBandwidth, sum_of(ranks.largest) / 4,
                                        sum_of(ranks.largest), penalty));
      const BatchObjective objective(ranks.models, ranks.largest, 200, kSizes, h);
      // h is of the rows alone, at one bandwidth: reckoned once for each number.
      std::vector<double> known;
      for (int64_t rows = 0; rows <= sum_of(ranks.largest); ++rows) {
        known.push_back(h.at(static_cast<double>(rows), 200 / objective.reference_mbps()));
      }
      const PenaltyOf by_rows = [&](double rows, double) {
        return known[static_cast<size_t>(rows)];
      };
      expect_same_objective(objective, by_rows);
      const ExhaustiveBest least =
          exhaustive_search(ranks.models, ranks.largest, sum_of(ranks.largest), by_rows);
      const BestBatch found = best_batch(objective, random_starts(objective, 32, Rng(seed++)));
      EXPECT_DOUBLE_EQ(found.objective, loss_rate(ranks.models, found.batch, by_rows));
      EXPECT_LE(found.objective, 1.02 * least.value)
          << fmt::format("found {}, least {} of ranks of {}", fmt::join(found.batch, " "),
                         fmt::join(least.batch, " "), fmt::join(ranks.largest, " "));
    }
  }
}

TEST(BestBatch, IsSoOfAProfileOverDrops) {
  for (size_t i = 0; i < 4; ++i) {
    const Ranks& ranks = kRanks[i];
    const LossPenalty h(known_profile(Over::kDrop, sum_of(ranks.largest) / 4, sum_of(ranks.largest),
                                      {.of_batch = 0.1, .of_link = 0.1, .decay = 5}));
    const BatchObjective objective(ranks.models, ranks.largest, 60, kSizes, h);
    std::map<std::pair<double, double>, double> known;
    const PenaltyOf by_drop = [&](double rows, double slowest_s) {
      const auto [at, is_new] = known.try_emplace({rows, slowest_s});
      if (is_new) at->second = h.at(rows, least_drop(kSizes, slowest_s, 60));  // of two ranks
      return at->second;
    };
    expect_same_objective(objective, by_drop);
    Batch few;  // a quarter of each, so that all can be tried
    for (const int64_t most : ranks.largest) few.push_back(most / 3);
    const BatchObjective small(ranks.models, few, 60, kSizes, h);
    const ExhaustiveBest least =
        exhaustive_search(ranks.models, few, sum_of(ranks.largest), by_drop);
    const BestBatch found = best_batch(small, random_starts(small, 32, Rng(1)));
    EXPECT_LE(found.objective, 1.02 * least.value) << i;
  }
}

TEST(BestBatch, OfManyRanksIsNoWorseThanAnyInProportion) {
  Models models;
  Batch largest;
  for (int r = 0; r < 16; ++r) {
    models.push_back({.alpha = 20.0 + 3 * r, .beta = 300.0 + 37 * (r * 7 % 16)});
    largest.push_back(128);
  }
  const LossPenalty h(known_profile(Over::kBandwidth, 512, 2048, {}));
  const BatchObjective objective(models, largest, 500, kSizes, h);
  const PenaltyOf by_rows = [&](double rows, double) {
    return h.at(rows, 500 / objective.reference_mbps());
  };
  double least = INFINITY;
  for (double seconds = 0.02; seconds < 0.5; seconds += 1e-4) {
    Batch batch;
    for (size_t r = 0; r < models.size(); ++r) {
      batch.push_back(std::clamp<int64_t>(std::llround(seconds * models[r].beta), 1, largest[r]));
    }
    least = std::min(least, loss_rate(models, batch, by_rows));
  }
  EXPECT_LE(best_batch(objective, random_starts(objective, 32, Rng(1))).objective, 1.02 * least);
}

TEST(BestBatch, HasNoMoreRowsThanTheProfileKnowsOf) {
  const Models models = {{.alpha = 64, .beta = 800}, {.alpha = 64, .beta = 800}};
  const LossPenalty h(known_profile(Over::kBandwidth, 64, 100, {.of_batch = 0}));
  const BatchObjective objective(models, {256, 256}, 200, kSizes, h);
  EXPECT_EQ(objective.most_rows(), 100);
  EXPECT_EQ(objective(Batch{50, 51}), INFINITY);
  const auto starts = random_starts(objective, 32, Rng(1));
  for (const auto& s : starts) EXPECT_LE(s[0] + s[1], 100 + 1e-9);
  EXPECT_LE(sum_of(best_batch(objective, starts).batch), 100);
}

TEST(BestBatch, OfRanksWithRoomForOneRowIsThat) {
  const Models models = {{.alpha = 64, .beta = 800}, {.alpha = 64, .beta = 800}};
  const LossPenalty h(known_profile(Over::kBandwidth, 1, 1, {}));
  const BatchObjective objective(models, {1, 1}, 200, kSizes, h);
  EXPECT_EQ(best_batch(objective, random_starts(objective, 2, Rng(1))).batch, (Batch{1, 1}));
}

TEST(BatchObjective, KnowsWhatTheReferenceNeedsHere) {
  // 300 rows, two thirds of them on the first rank: .25 s each. Of three times as many ranks each
  // sends a part to all others.
  const Models models = {{.alpha = 20, .beta = 800}, {.alpha = 20, .beta = 400}};
  const LossPenalty h(known_profile(Over::kBandwidth, 300, 1000, {}));
  const BatchObjective two(models, {500, 500}, 100, kSizes, h);
  EXPECT_NEAR(two.reference_mbps(), 8e-6 * selection_bytes(kSizes, 0.9) / 0.25, 1e-6);
  const BatchObjective three({models[0], models[1], models[0]}, {500, 500, 500}, 100, kSizes, h);
  EXPECT_NEAR(three.reference_mbps(), 8e-6 * selection_bytes(kSizes, 0.8) / 0.15, 1e-6);
  EXPECT_NEAR(two.training_drop(std::vector<double>{200, 100}), least_drop(kSizes, 0.25, 100),
              1e-12);
  EXPECT_NEAR(three.training_drop(std::vector<double>{200, 100, 200}),
              1 - (1 - least_drop(kSizes, 0.25, 100)) / 2, 1e-12);
}

TEST(BatchObjective, RefusesWhatIsNoSearch) {
  const Models two(2);
  const LossPenalty h(known_profile(Over::kBandwidth, 300, 1000, {}));
  EXPECT_THROW(BatchObjective(Models(1), {8}, 100, kSizes, h), Error);
  EXPECT_THROW(BatchObjective(two, {8}, 100, kSizes, h), Error);
  EXPECT_THROW(BatchObjective(two, {8, 0}, 100, kSizes, h), Error);
  for (const double bad : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_THROW(BatchObjective(two, {8, 8}, bad, kSizes, h), Error);
  }
  const BatchObjective objective(two, {8, 8}, 100, kSizes, h);
  EXPECT_THROW(objective(Batch{1, 1, 1}), Error);
  EXPECT_THROW(best_batch(objective, {}), Error);
  EXPECT_THROW(best_batch(objective, std::vector<std::vector<double>>{{1}}), Error);
}

}  // namespace
}  // namespace ndtrain
