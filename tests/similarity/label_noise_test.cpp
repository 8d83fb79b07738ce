#include "ndp/similarity/label_noise.h"

#include <gmock/gmock.h>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

Probabilities of(std::vector<double> values, size_t classes) {
  Probabilities p;
  p.classes = classes;
  p.values = std::move(values);
  return p;
}

std::vector<size_t> examples_of(const std::vector<LabelNoise>& found) {
  std::vector<size_t> all;
  for (const LabelNoise& n : found) all.push_back(n.example);
  return all;
}

// Thresholds by hand: of class 0, (.9 + .8 + .1) / 3 = .6; of class 1, (.7 + .9 + .45) / 3 = .683.
// Example 2 counts as 1, example 5 (.55, .45) as neither: of class 0 a third is wrong, of class 1
// none.
const std::vector<size_t> kLabels = {0, 0, 0, 1, 1, 1};
const Probabilities kHeldOut = of({.9, .1, .8, .2, .1, .9, .3, .7, .1, .9, .55, .45}, 2);

TEST(LabelNoise, IsEstimatedByThresholdsOfTheClasses) {
  EXPECT_EQ(estimated_noise(kLabels, kHeldOut), 1U);
}

TEST(LabelNoise, TheLeastLikelyBesideAnotherClassComeFirstAndNoMoreThanEstimated) {
  const std::vector<LabelNoise> found = contradicted_labels(kLabels, kHeldOut);
  ASSERT_THAT(examples_of(found), ElementsAre(2));  // and not 5, though 0 is likelier there
  EXPECT_EQ(found[0].suggested, 1U);
  EXPECT_DOUBLE_EQ(found[0].score, .1);
  EXPECT_DOUBLE_EQ(found[0].suggested_score, .9);
}

TEST(LabelNoise, IsOrderedByTheRatioOfBothProbabilities) {
  // By the ratio 4 is before 3, by the difference behind it.
  const std::vector<size_t> labels = {0, 0, 0, 0, 0, 1, 1, 2, 2};
  const Probabilities p = of({.8, .1, .1, .9, .05, .05, .7, .2,  .1, .2,  .8, 0,  .05, .45,
                              .5, .1, .8, .1, .1,  .7,  .2, .05, .5, .45, .2, .4, .4},
                             3);
  const auto found = contradicted_labels(labels, p);
  EXPECT_THAT(examples_of(found), ElementsAre(4, 3));
  EXPECT_EQ(found[0].suggested, 2U);
}

TEST(LabelNoise, AClassThatNothingIsLabelledAsIsNotCounted) {
  const std::vector<size_t> labels = {0, 0};
  EXPECT_EQ(estimated_noise(labels, of({.9, .1, .2, .8}, 2)), 0U);
  EXPECT_TRUE(contradicted_labels({}, of({}, 2)).empty());
  EXPECT_THROW(contradicted_labels(labels, of({.9, .1}, 2)), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
