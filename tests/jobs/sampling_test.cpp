#include "ndp/jobs/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Photos 0 to n-1, of which every tenth is of class 1, the last `recent` are labelled at 100, the
// others at 50, and the first two are for validation.
TrainingPhotos photos(size_t n, size_t recent) {
  TrainingPhotos p;
  p.set.classes = {"cat", "dog"};
  for (size_t i = 0; i < n; ++i) {
    p.set.photos.push_back({.path = std::to_string(i),
                            .digest = sha256(std::to_string(i)),
                            .label = i % 10 == 9 ? 1 : 0,
                            .label_time = i + recent >= n ? 100 : 50});
    p.roots.emplace_back("root");
    p.for_validation.push_back(i < 2);
  }
  return p;
}

std::vector<std::string> chosen(TrainingPhotos p, const Sampling& s, uint64_t seed = 1) {
  NoProgress quiet;
  choose_photos(p, s, seed, quiet);
  std::vector<std::string> paths;
  for (const Photo& photo : p.set.photos) paths.push_back(photo.path);
  EXPECT_EQ(p.roots.size(), paths.size());
  EXPECT_EQ(p.for_validation.size(), paths.size());
  return paths;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Sampling, SinceAndLabelChooseWhatIsTrainedOnAndNothingForValidation) {
  EXPECT_THAT(chosen(photos(20, 3), {.since = 100}), ElementsAre("0", "1", "17", "18", "19"));
  EXPECT_THAT(chosen(photos(20, 3), {.since = 101 - 1, .labels = {"dog"}}),
              ElementsAre("0", "1", "19"));
  EXPECT_THAT(chosen(photos(20, 3), {.labels = {"dog"}}), ElementsAre("0", "1", "9", "19"));
  EXPECT_EQ(chosen(photos(20, 3), {.since = 50}).size(), 20u);
  EXPECT_EQ(chosen(photos(20, 3), {.since = 100, .truth_share = 0.5}).size(), 20u)
      << "what is older stays";
}

TEST(Sampling, ASampleIsDrawnByContentAndIsPartOfALargerOne) {
  const auto few = chosen(photos(100, 5), {.sample = 10});
  const auto more = chosen(photos(100, 5), {.sample = 30});
  EXPECT_EQ(few.size(), 12u);
  EXPECT_EQ(more.size(), 32u);
  for (const std::string& path : few) EXPECT_EQ(std::ranges::count(more, path), 1);
  EXPECT_NE(chosen(photos(100, 5), {.sample = 10}, 2), few) << "by the seed, too";
  TrainingPhotos reversed = photos(100, 5);
  std::ranges::reverse(reversed.set.photos);
  reversed.for_validation = {};
  for (const Photo& p : reversed.set.photos) {
    reversed.for_validation.push_back(p.path == "0" || p.path == "1");
  }
  EXPECT_THAT(chosen(reversed, {.sample = 10}), ::testing::UnorderedElementsAreArray(few));
  EXPECT_EQ(chosen(photos(100, 5), {.sample = 98}).size(), 100u);
  EXPECT_EQ(chosen(photos(100, 5), {.since = 100, .sample = 10, .truth_share = 0.5}).size(),
            2u + 5 + 10)
      << "of the older ones";
}

TEST(Sampling, WhatCannotBeIsRefusedByName) {
  EXPECT_THAT(refusal([] { chosen(photos(20, 3), {.since = 101}); }), HasSubstr("--since 101"));
  EXPECT_THAT(refusal([] { chosen(photos(20, 3), {.labels = {"cow"}}); }),
              HasSubstr("no class 'cow'; the classes are cat, dog"));
  for (const double x : {0.0, 1.0, -1.0, std::nan("")}) {
    EXPECT_THAT(refusal([x] { Sampling{.since = 1, .truth_share = x}.check(); }),
                HasSubstr("above 0 and below 1"));
  }
  EXPECT_THAT(refusal([] { Sampling{.truth_share = 0.5}.check(); }), HasSubstr("--since"));
  EXPECT_THAT(refusal([] { Sampling{.sample = -1}.check(); }), HasSubstr("-1"));
  EXPECT_THAT(refusal([] { Sampling{.balanced = true, .class_weights = "balanced"}.check(); }),
              HasSubstr("give one"));
  const std::vector<SampledRow> old = {{.label = 0}, {.label = 1}};
  EXPECT_THAT(refusal([&] { draw_probabilities(old, {.since = 9, .truth_share = 0.5}); }),
              HasSubstr("no photo to train on has a label since 9"));
  const std::vector<SampledRow> all = {{.label = 0, .recent = true}};
  EXPECT_THAT(refusal([&] { draw_probabilities(all, {.since = 9, .truth_share = 0.5}); }),
              HasSubstr("every photo"));
}

std::vector<SampledRow> rows(size_t old_cats, size_t old_dogs, size_t new_cats, size_t new_dogs) {
  std::vector<SampledRow> r;
  r.insert(r.end(), old_cats, {.label = 0});
  r.insert(r.end(), old_dogs, {.label = 1});
  r.insert(r.end(), new_cats, {.label = 0, .recent = true});
  r.insert(r.end(), new_dogs, {.label = 1, .recent = true});
  return r;
}

// n / (k n_c): scikit-learn's compute_class_weight("balanced") of 6 cats and 2 dogs gives 2/3, 2.
TEST(ClassWeights, BalancedAreScikitLearnsAndHaveAMeanOfOne) {
  const std::vector<SampledRow> r = rows(6, 2, 0, 0);
  const auto w = loss_weights(r, {.class_weights = "balanced"}, {"cat", "dog", "cow"});
  EXPECT_DOUBLE_EQ(w[0], 2.0 / 3);
  EXPECT_DOUBLE_EQ(w[7], 2.0);
  double sum = 0;
  for (const double x : w) sum += x;
  EXPECT_DOUBLE_EQ(sum, 8);
}

TEST(ClassWeights, AreGivenByNameAndRefusedByName) {
  const std::vector<SampledRow> r = rows(1, 1, 0, 0);
  const std::vector<std::string> classes = {"cat", "a=b"};
  const auto weights = [&](const std::string& text) {
    return loss_weights(r, {.class_weights = text}, classes);
  };
  EXPECT_THAT(weights("a=b=2.5"), ElementsAre(1, 2.5));
  EXPECT_THAT(weights("cat=3,a=b=0.5"), ElementsAre(3, 0.5));
  EXPECT_THAT(weights(""), ElementsAre(1, 1));
  for (const char* bad : {"cat", "cat=", "cat=0", "cat=-1", "cat=x", "cat=1,", "cat=inf"}) {
    EXPECT_THAT(refusal([&] { weights(bad); }), HasSubstr("CLASS=WEIGHT")) << bad;
  }
  EXPECT_THAT(refusal([&] { weights("cow=2"); }), HasSubstr("no class 'cow'"));
}

TEST(DrawProbabilities, GiveRecentTruthItsShareHoweverLittleThereIs) {
  const std::vector<SampledRow> r = rows(990, 0, 6, 4);
  const auto p = draw_probabilities(r, {.since = 1, .truth_share = 0.25});
  EXPECT_DOUBLE_EQ(p[0], 0.75 / 990);
  EXPECT_DOUBLE_EQ(p[995], 0.25 / 10);
  const auto balanced = draw_probabilities(r, {.since = 1, .truth_share = 0.25, .balanced = true});
  EXPECT_NEAR(balanced[0], 0.75 / 990, 1e-12);
  EXPECT_NEAR(balanced[990], 0.25 / 2 / 6, 1e-12);
  EXPECT_NEAR(balanced[999], 0.25 / 2 / 4, 1e-12);
  EXPECT_DOUBLE_EQ(draw_probabilities(rows(3, 1, 0, 0), {.balanced = true})[3], 0.5);
}

// WeightedRandomSampler with replacement draws each place by itself: the counts of a class are
// binomial, here within five deviations.
TEST(SampledRows, AreDrawnAsOftenAsTheirProbabilitiesSay) {
  const size_t n = 4000;
  const std::vector<SampledRow> r = rows(3600, 360, 0, 40);
  std::vector<int64_t> labels;
  for (const SampledRow& row : r) labels.push_back(row.label + (row.recent ? 2 : 0));
  const auto p = draw_probabilities(r, {.since = 1, .truth_share = 0.4, .balanced = true});
  int64_t epoch = 0;
  SampledRows drawn(std::make_unique<TensorDataset>(
                        std::vector<Tensor>{Tensor({DType::kF32, {int64_t{n}, 1}})}, labels),
                    std::vector<double>(n, 1), p, 7, [&] { return epoch; });
  std::vector<int64_t> places(n), got(n), again(n);
  for (size_t i = 0; i < n; ++i) places[i] = static_cast<int64_t>(i);
  std::vector<Tensor> inputs = {Tensor({DType::kF32, {int64_t{n}, 1}})};
  drawn.fetch(places, inputs, got);
  std::map<int64_t, double> counts;
  for (const int64_t label : got) ++counts[label];
  for (const auto& [label, share] : std::map<int64_t, double>{{0, 0.3}, {1, 0.3}, {3, 0.4}}) {
    const double expected = share * n, deviation = std::sqrt(expected * (1 - share));
    EXPECT_NEAR(counts[label], expected, 5 * deviation) << label;
  }
  drawn.fetch(places, inputs, again);
  EXPECT_EQ(again, got);
  epoch = 1;
  drawn.fetch(places, inputs, again);
  EXPECT_NE(again, got) << "each epoch otherwise";
}

TEST(Sampling, NamesMayHaveCommas) {
  EXPECT_THAT(names_between_commas("a,b c,"), ElementsAre("a", "b c", ""));
  EXPECT_THAT(names_between_commas(R"(cat\, small,dog\d,\,)"),
              ElementsAre("cat, small", R"(dog\d)", ","));
  EXPECT_THAT(names_between_commas(""), ElementsAre(""));
  const std::vector<SampledRow> rows = {{.label = 0}, {.label = 1}};
  EXPECT_THAT(loss_weights(rows, {.class_weights = R"(cat\, small=3)"}, {"cat, small", "dog"}),
              ElementsAre(3, 1));
}

// The loss of an epoch, where nothing is learned, is linear in the weights of its rows: each row's
// own is measured with all others at 0.
TEST(SampledRows, WeighTheLossOfAnEpochByClass) {
  const Model m = testing::small_net(false, 0, 3);
  const TensorDataset data = testing::stripes(30, 3);
  std::vector<int64_t> all(30), labels(30);
  for (size_t i = 0; i < 30; ++i) all[i] = static_cast<int64_t>(i);
  TrainerConfig config{.epochs = 1, .batch = 7, .schedule = {.lr = 0}, .shards = 2};
  const auto loss_of = [&](const std::vector<double>& weights) {
    Trainer t(m, testing::weights_of(m), testing::cpu(), config);
    SampledRows rows(std::make_unique<TensorDataset>(data), weights, {}, 1, [] { return 0; });
    EpochResult r;
    EXPECT_TRUE(t.train_epoch(rows, r));
    return r.loss;
  };
  double expected = 0;
  std::vector<double> weights;
  for (size_t i = 0; i < 30; ++i) weights.push_back(i % 3 == 0 ? 2.5 : 0.5);
  for (size_t i = 0; i < 30; ++i) {
    std::vector<double> one(30, 0.0);
    one[i] = 1;
    expected += weights[i] * loss_of(one);
  }
  EXPECT_NEAR(loss_of(weights), expected, 1e-5);
  EXPECT_GT(std::abs(loss_of(weights) - loss_of(std::vector<double>(30, 1))), 1e-3);
}

// Old cats, then new dogs: in two shards there are both.
TEST(DrawProbabilities, AreOfEachShardByItself) {
  std::vector<SampledRow> r = rows(6, 0, 0, 4);
  const Sampling half{.since = 1, .truth_share = 0.5};
  const auto p = draw_probabilities(r, half, 2);
  double sums[2] = {}, recent[2] = {};
  for (size_t i = 0; i < r.size(); ++i) {
    sums[i % 2] += p[i];
    recent[i % 2] += r[i].recent ? p[i] : 0;
  }
  for (const int shard : {0, 1}) {
    EXPECT_DOUBLE_EQ(sums[shard], 1);
    EXPECT_DOUBLE_EQ(recent[shard], 0.5);
  }
  EXPECT_EQ(draw_probabilities(r, half, 1), draw_probabilities(r, half));
  EXPECT_THAT(refusal([&] { draw_probabilities(r, half, 10); }),
              HasSubstr("no photo to train on of shard 1 of 10 has a label since 1; take another "
                        "--since, fewer --shards"));
}

TEST(SampledRows, AreDrawnFromTheShardOfTheirPlace) {
  const std::vector<SampledRow> r = rows(20, 3, 0, 0);
  TensorDataset data({Tensor::from_doubles({DType::kF32, {23, 1}}, std::vector<double>(23))},
                     std::vector<int64_t>(23));
  int64_t epoch = 0;
  constexpr int64_t kShards = 4;
  const SampledRows drawn(
      std::make_unique<TensorDataset>(data), std::vector<double>(23, 1),
      draw_probabilities(r, {.balanced = true}, kShards), 5, [&] { return epoch; }, kShards);
  std::set<int64_t> seen;
  for (; epoch < 200; ++epoch) {
    for (int64_t row = 0; row < 23; ++row) {
      const int64_t from = drawn.drawn(row);
      ASSERT_TRUE(from >= 0 && from < 23);
      ASSERT_EQ(from % kShards, row % kShards);
      seen.insert(from);
    }
  }
  EXPECT_EQ(seen.size(), 23U);
}

}  // namespace
}  // namespace ndtrain::ndp
