// Ranks that send some of gradients that a test gives them.
#include "framework/sparse/sync/sparse_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "framework/parallel/between_ranks.h"
#include "tests/parallel/training_by_ranks.h"
#include "tests/sparse/one_tensor.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

using OneTensor = OneTensorOf<SparseSync, SparseSyncOptions>;

std::vector<float> whole_numbers(int rank, int step) {
  const Rng rng(static_cast<uint64_t>(100 * rank + step), "gradient");
  std::vector<float> g(OneTensor::kElements);
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] = static_cast<float>(static_cast<int64_t>(rng.bits(i) % 201) - 100);
  }
  return g;
}

// SGD at rate 1 without momentum: what has left the parameters is what was sent. Sites of so many
// ranks each.
void expect_sums(const SparseSyncOptions& asked, int sites, int ranks_of_site,
                 const std::string& what) {
  constexpr int kSteps = 25;
  const int ranks = sites * ranks_of_site;
  std::vector<float> sum(OneTensor::kElements, 0);
  for (int r = 0; r < ranks; ++r) {
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> g = whole_numbers(r, step);
      for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
    }
  }
  SparseSyncOptions options = asked;
  for (int r = 0; r < ranks; ++r) options.sites.push_back(r / ranks_of_site);
  std::vector<std::vector<float>> left(static_cast<size_t>(ranks)), values = left;
  on_ranks(ranks, [&](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, ranks, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                  options);
    for (int step = 0; step < kSteps; ++step) one.step(whole_numbers(rank, step));
    one.flush();
    const auto r = static_cast<size_t>(rank);
    left[r].assign(one.sync().feedback().left(0).begin(), one.sync().feedback().left(0).end());
    values[r] = one.values();
  });
  for (size_t i = 0; i < sum.size(); ++i) {
    float rest = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float>& of_site = left[static_cast<size_t>(r - r % ranks_of_site)];
      ASSERT_EQ(left[static_cast<size_t>(r)][i], of_site[i]) << what << ", element " << i;
      if (r % ranks_of_site == 0) rest += of_site[i];
    }
    ASSERT_EQ(rest - values[0][i], sum[i]) << what << ", element " << i;
    for (const std::vector<float>& v : values) ASSERT_EQ(v[i], values[0][i]);
  }
}

TEST(SparseSync, WhatIsSentAndWhatIsLeftAreTheGradients) {
  std::vector<SparseSyncOptions> all = {{.drop = 0.95}};
  for (const char* compressor : {"topk", "randomk", "threshold-v", "threshold-v16"}) {
    for (const int staleness : {0, 2}) {
      all.push_back(
          {.compressor = compressor, .drop = 0.95, .pieces = true, .staleness = staleness});
      all.push_back({.compressor = compressor,
                     .drop = 0.95,
                     .largest_of_sums = true,
                     .staleness = staleness});
    }
  }
  all.push_back({.drop = 0.5, .pieces = true, .largest_of_sums = true});
  for (const SparseSyncOptions& options : all) {
    const std::string way = "way " + std::to_string(&options - all.data());
    for (const int sites : {1, 2, 4}) expect_sums(options, sites, 1, way);
    for (const int ranks_of_site : {2, 4}) {
      expect_sums(options, 2, ranks_of_site, way + ", sites of " + std::to_string(ranks_of_site));
    }
  }
}

// What was sent in a step may be under way until the next one but S reads it.
TEST(SparseSync, ATensorTakesItsStepWhereItIsRead) {
  for (const int staleness : {0, 1}) {
    on_ranks(2, [&](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                    {.compressor = "topk", .drop = 0, .staleness = staleness});
      const std::vector<float> ones(OneTensor::kElements, 1);
      const auto all = [](float x) { return std::vector<float>(OneTensor::kElements, x); };
      for (int step = 0; step < 4; ++step) {
        const auto applied = static_cast<float>(std::max(0, step - staleness));
        const float before = std::max(0.0F, applied - 1);
        one.begin_unread();
        EXPECT_EQ(one.values(), all(-2 * before)) << "step " << step;
        one.read();
        EXPECT_EQ(one.values(), all(-2 * applied)) << "step " << step;
        one.read();
        one.end(ones);
        EXPECT_EQ(one.values(), all(-2 * applied)) << "step " << step;
      }
      one.flush();
      EXPECT_EQ(one.values(), all(-8));
    });
  }
}

// A step that reads nothing applies it before it ends.
TEST(SparseSync, ATensorThatIsNotReadTakesItsStepAllTheSame) {
  on_ranks(2, [&](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                  {.compressor = "topk", .drop = 0});
    const std::vector<float> ones(OneTensor::kElements, 1);
    for (int step = 0; step < 3; ++step) {
      one.begin_unread();
      one.end(ones);
      EXPECT_EQ(one.values(),
                std::vector<float>(OneTensor::kElements, static_cast<float>(-2 * step)));
    }
    one.flush();
  });
}

// Rank r changes piece (step + r) mod ranks of the 1000 elements alone, k of it.
TEST(SparseSync, InPiecesEachRankSendsAnother) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [&](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, kRanks, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                  {.compressor = "topk", .drop = 0.25, .pieces = true});
    const int64_t n = OneTensor::kElements;
    for (int step = 0; step < 7; ++step) {
      const auto sent = [&] {
        std::vector<float> left(one.sync().feedback().left(0).begin(),
                                one.sync().feedback().left(0).end());
        return left;
      };
      const std::vector<float> before = sent();
      std::vector<float> g(static_cast<size_t>(n), static_cast<float>(step + 1));
      one.step(g);
      const std::vector<float> after = sent();
      const int64_t piece = (step + rank) % kRanks;
      int64_t taken = 0;
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        if (after[at] == before[at] + g[at]) continue;
        EXPECT_EQ(after[at], 0);
        EXPECT_GE(i, n * piece / kRanks);
        EXPECT_LT(i, n * (piece + 1) / kRanks);
        ++taken;
      }
      EXPECT_EQ(taken, 250);
    }
  });
}

// k of a sum are kept: those with the largest magnitudes of what ranks sent.
TEST(SparseSync, OfSumsTheLargestAreKept) {
  on_ranks(2, [&](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                  {.compressor = "topk", .drop = 0.996, .largest_of_sums = true});
    std::vector<float> g(OneTensor::kElements, 0);
    g[10] = rank == 0 ? 5 : 4;  // 9 in all
    g[20] = rank == 0 ? 6 : 0;
    g[30] = rank == 0 ? 0 : -7;
    one.step(g);
    std::vector<float> expected(OneTensor::kElements, 0);
    expected[10] = -9;
    expected[30] = 7;
    EXPECT_EQ(one.values(), expected);
    EXPECT_EQ(one.sync().feedback().left(0)[20], rank == 0 ? 6 : 0);
    one.step(std::vector<float>(OneTensor::kElements, 0));
    expected[20] = -6;
    EXPECT_EQ(one.values(), expected);
  });
}

// All ranks have the same values, bit for bit; and but for the roundings of float sums what is sent
// and what is left are the gradients.
TEST(SparseSync, InIntegersAllRanksHaveTheSameValuesAtEveryStep) {
  constexpr int kSteps = 25, kRanks = 3;
  for (const ValueCoding wire : {ValueCoding::kInt8, ValueCoding::kInt4}) {
    for (const std::string name : {"topk", "randomk", "threshold-v16", "efsignum"}) {
      for (const double drop : {0.0, 0.9}) {
        std::vector<std::vector<std::vector<float>>> values(kRanks), left(kRanks);
        on_ranks(kRanks, [&](Communicator& communicator, int rank) {
          OneTensor one(communicator, rank, kRanks,
                        {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0},
                        {.compressor = name, .drop = drop, .wire = wire, .seed = 5});
          const auto r = static_cast<size_t>(rank);
          for (int step = 0; step < kSteps; ++step) {
            one.step(whole_numbers(rank, step));
            values[r].push_back(one.values());
            const std::span<const float> rest = one.sync().feedback().left(0);
            left[r].emplace_back(rest.begin(), rest.end());
          }
        });
        std::vector<double> sum(OneTensor::kElements, 0);
        for (int step = 0; step < kSteps; ++step) {
          const auto at = static_cast<size_t>(step);
          for (size_t r = 0; r < kRanks; ++r) {
            const std::vector<float> g = whole_numbers(static_cast<int>(r), step);
            for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
            ASSERT_EQ(values[r][at], values[0][at]) << name << " step " << step;
          }
          for (size_t i = 0; i < sum.size(); ++i) {
            double rest = -double{values[0][at][i]};
            for (const auto& l : left) rest += l[at][i];
            ASSERT_NEAR(rest, sum[i], 0.05) << name << " step " << step << " element " << i;
          }
        }
      }
    }
  }
}

TEST(SparseSync, SendsAsManyBytesOfIntegersAsDocumented) {
  // 250 elements, whose indices all know: their length in two bytes, the coding, scales and values.
  for (const auto& [wire, bytes] : {std::pair(ValueCoding::kInt8, 2 + 1 + 4 + 250),
                                    std::pair(ValueCoding::kInt4, 2 + 1 + 4 * 4 + 125)}) {
    on_ranks(2, [wire = wire, bytes = bytes](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd},
                    {.compressor = "randomk", .drop = 0.5, .wire = wire});
      for (int step = 1; step <= 3; ++step) {
        one.step(whole_numbers(rank, step));
        EXPECT_EQ(one.sync().sent_bytes(), step * bytes);
      }
    });
  }
}

// In the first epochs the less is dropped: of 1000 elements randomk sends four bytes for each.
TEST(SparseSync, ADropOfItsOwnCountsInEveryEpoch) {
  struct Case {
    std::vector<double> firsts;
    std::vector<std::pair<std::string, double>> own;
    std::vector<int64_t> elements;  // of each epoch, of one rank alone
  };
  const Case cases[] = {{{0.5, 0.75}, {}, {500, 250, 125}},
                        {{0.5, 0.75}, {{"w", 0.8125}}, {500, 250, 187}},
                        {{0.5, 0.75}, {{"*", 0.625}}, {500, 375, 375}},
                        {{}, {{"w", 0.25}, {"w", 0.625}}, {375, 375, 375}}};
  for (const Case& c : cases) {
    on_ranks(1, [&](Communicator& communicator, int rank) {
      OneTensor one(
          communicator, rank, 1, {.kind = OptimizerConfig::Kind::kSgd},
          {.compressor = "randomk", .drop = 0.875, .first_drops = c.firsts, .drops = c.own});
      int64_t sent = 0;
      for (int epoch = 0; epoch < 3; ++epoch) {
        one.begin_epoch(epoch);
        one.step(whole_numbers(rank, epoch));
        const int64_t now = one.sync().sent_bytes() - std::exchange(sent, one.sync().sent_bytes());
        EXPECT_EQ((now - 3) / 4, c.elements[static_cast<size_t>(epoch)]) << "epoch " << epoch;
      }
    });
  }
}

// Four ranks, whose selections are added up in their order: against values and momentum of each
// version, where a gradient is a function of what it is computed with.
TEST(SparseSync, SomeStepsLateFourRanksAreASerialProgram) {
  constexpr int kSteps = 12, kRanks = 4;
  constexpr float kMomentum = 0.5F, kRate = 0.25F;
  const auto gradient = [](const std::vector<float>& values, int rank, int step) {
    std::vector<float> g = whole_numbers(rank, step);
    for (size_t i = 0; i < g.size(); ++i) g[i] = 0.01F * g[i] + 0.1F * values[i];
    return g;
  };
  for (const int staleness : {0, 1, 2}) {
    using Values = std::vector<float>;
    std::vector<Values> versions = {Values(OneTensor::kElements, 0)};
    Values momentum(OneTensor::kElements, 0);
    for (int t = 0; t < kSteps; ++t) {
      const Values& seen = versions[static_cast<size_t>(std::max(0, t - staleness))];
      Values sum = gradient(seen, 0, t), next = versions.back();
      for (int r = 1; r < kRanks; ++r) {
        const Values g = gradient(seen, r, t);
        for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
      }
      for (size_t i = 0; i < sum.size(); ++i) {
        momentum[i] = kMomentum * momentum[i] + sum[i];
        next[i] -= kRate * momentum[i];
      }
      versions.push_back(std::move(next));
    }
    on_ranks(kRanks, [&](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, kRanks,
                    {.kind = OptimizerConfig::Kind::kSgd, .momentum = kMomentum},
                    {.drop = 0, .staleness = staleness}, kRate);
      for (int t = 0; t < kSteps; ++t) {
        one.begin();
        EXPECT_EQ(one.values(), versions[static_cast<size_t>(std::max(0, t - staleness))]);
        one.end(gradient(one.values(), rank, t));
      }
      one.flush();
      EXPECT_EQ(one.values(), versions.back());
    });
  }
}

TEST(SparseSync, AGradientThatIsNotFiniteIsLeftOutOnAllRanks) {
  for (const int staleness : {0, 2}) {
    on_ranks(2, [staleness](Communicator& communicator, int rank) {
      OneTensor one(communicator, rank, 2, {.kind = OptimizerConfig::Kind::kSgd},
                    {.drop = 0.9, .staleness = staleness});
      one.step(whole_numbers(rank, 0));
      one.flush();
      const std::vector<float> values = one.values();
      const auto state = one.sync().state().at("w.residual");
      std::vector<float> bad = whole_numbers(rank, 1);
      if (rank == 1) bad[7] = NAN;
      one.step(bad);
      one.flush();
      EXPECT_EQ(one.values(), values);
      EXPECT_TRUE(
          std::ranges::equal(one.sync().state().at("w.residual").as<float>(), state.as<float>()));
      EXPECT_EQ(one.sync().left_out(), 1);
      EXPECT_EQ(one.steps(), 1);
      one.step(whole_numbers(rank, 2));
      one.flush();
      EXPECT_NE(one.values(), values);
    });
  }
}

TEST(SparseSync, RanksThatSendAnotherNumberOfElementsAreNamed) {
  on_ranks(2, [](Communicator& communicator, int rank) {
    OneTensor one(communicator, rank, 2, {}, {.drop = rank == 0 ? 0.75 : 0.5});
    EXPECT_THAT(
        error_of([&] { one.step(whole_numbers(rank, 0)); }),
        ::testing::HasSubstr(rank == 0 ? "rank 1, w: 250 elements were sent, 125 are expected"
                                       : "rank 0, w: 125 elements were sent, 250 are"));
  });
}

TEST(SparseSync, RefusesWhatDoesNotGoTogether) {
  on_ranks(1, [](Communicator& communicator, int rank) {
    const auto made = [&](const OptimizerConfig& optimizer, const SparseSyncOptions& options) {
      return error_of([&] { OneTensor(communicator, rank, 1, optimizer, options); });
    };
    EXPECT_THAT(made({.clip_norm = 1}, {}), ::testing::HasSubstr("are not clipped"));
    EXPECT_THAT(made({}, {.compressor = "randomk", .compressing = {.unbiased = true}}),
                ::testing::HasSubstr("would count twice"));
    EXPECT_THAT(made({}, {.momentum = 0.9}), ::testing::HasSubstr("is sgd without"));
    EXPECT_THAT(made({.kind = OptimizerConfig::Kind::kSgd, .momentum = 0}, {.momentum = 1}),
                ::testing::HasSubstr("momentum is 1: 0 to below 1"));
    EXPECT_THAT(made({}, {.first_drops = {0.5, 2}}), ::testing::HasSubstr("drop is 2"));
    EXPECT_THAT(made({}, {.drops = {{"v", 0.5}}}), ::testing::HasSubstr("drop of 'v'"));
    EXPECT_THAT(made({}, {.drops = {{"w", 1}}}), ::testing::HasSubstr("drop of 'w' is 1"));
    EXPECT_THAT(made({}, {.staleness = 17}), ::testing::HasSubstr("staleness is 17: 0 to 16"));
    EXPECT_THAT(made({}, {.drop = 1}), ::testing::HasSubstr("drop is 1"));
    EXPECT_THAT(made({}, {.compressor = "best"}), ::testing::HasSubstr("no compressor 'best'"));
  });
}

}  // namespace
}  // namespace ndtrain
