#include "ndp/similarity/held_out.h"

#include <gmock/gmock.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

TEST(HeldOut, EachClassIsSpreadOverTheFolds) {
  std::vector<ProbeExample> examples;
  for (size_t i = 0; i < 23; ++i) examples.push_back({i, i % 3 == 0 ? 0U : 1U});
  const std::vector<size_t> fold_of = folds_of(examples, 2, 5);
  size_t counts[2][5] = {};
  for (size_t i = 0; i < examples.size(); ++i) ++counts[examples[i].label][fold_of[i]];
  for (size_t f = 0; f < 5; ++f) {
    EXPECT_GE(counts[0][f], 1U);  // of 8
    EXPECT_LE(counts[0][f], 2U);
    EXPECT_EQ(counts[1][f], 3U);  // of 15
  }
}

// Labels by a coin: whoever has seen an example's own label is right more often than not.
TEST(HeldOut, AProbeHasNotSeenTheLabelOfWhatItIsAskedAbout) {
  Rng rng(3, "coins");
  EmbeddingRows rows{.dimensions = 64};
  std::vector<ProbeExample> examples;
  for (size_t i = 0; i < 200; ++i) {
    std::vector<float> row(rows.dimensions);
    for (float& x : row) x = static_cast<float>(rng.next_uniform() - 0.5);
    rows.add(row);
    examples.push_back({i, rng.next_below(2)});
  }
  ThreadPool threads(1);
  const auto right = [&](const Probabilities& p) {
    int n = 0;
    for (size_t e = 0; e < examples.size(); ++e) n += p.of(e)[examples[e].label] > 0.5 ? 1 : 0;
    return n;
  };
  const EmbeddingRows scaled = centred(rows);
  const auto fold_of = folds_of(examples, 2, 5);
  // 100 by chance, standard deviation 7.1.
  EXPECT_LE(right(held_out_by_probe(scaled, examples, 2, fold_of, 1, threads)), 125);
  const LinearProbe seen = fit_probe(scaled, examples, 2, 1, threads);
  Probabilities of_seen(examples.size(), 2);
  for (size_t e = 0; e < examples.size(); ++e) seen.probabilities(scaled.row(e), of_seen.of(e));
  EXPECT_GE(right(of_seen), 145) << "which would not be found out otherwise";
}

TEST(HeldOut, NeighboursVoteByTheirCosine) {
  const auto at = [](double angle) {
    return std::vector<float>{static_cast<float>(std::cos(angle)),
                              static_cast<float>(std::sin(angle))};
  };
  EmbeddingRows rows{.dimensions = 2};
  for (const double angle : {0.0, 0.1, 0.4, 1.5}) rows.add(at(angle));
  const std::vector<ProbeExample> examples = {{1, 0}, {2, 1}, {3, 1}};
  ThreadPool threads(2);
  const std::vector<size_t> asked = {0, 1};
  const Probabilities p = by_neighbours(rows, asked, examples, 2, threads);
  const auto vote = [](double angle) { return std::exp(std::cos(angle) / kVoteTemperature); };
  const double first = vote(0.1) / (vote(0.1) + vote(0.4) + vote(1.5));
  EXPECT_NEAR(p.of(0)[0], 0.99 * first + 0.005, 1e-5);
  EXPECT_NEAR(p.of(1)[0], 0.005, 1e-9) << "the only one of its class, which is itself";
  EXPECT_NEAR(p.of(1)[0] + p.of(1)[1], 1, 1e-12);
  EXPECT_THROW(by_neighbours(rows, asked, {}, 2, threads), Error);
  const std::vector<ProbeExample> itself = {{0, 1}};
  const std::vector<size_t> alone = {0};
  EXPECT_THAT(by_neighbours(rows, alone, itself, 2, threads).values, ElementsAre(0.5, 0.5));
}

TEST(HeldOut, OnlyProbabilitiesOfTheSameHaveAMean) {
  Probabilities a(1, 2), b(1, 2);
  a.values = {0.2, 0.8};
  b.values = {0.6, 0.4};
  EXPECT_NEAR(mean_of(a, b).of(0)[0], 0.4, 1e-12);
  EXPECT_THROW(mean_of(a, Probabilities(2, 1)), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
