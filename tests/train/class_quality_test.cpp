#include "framework/train/class_quality.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

// As scikit-learn 1.3's precision_recall_fscore_support has it of y_true = 0 0 0 1 1 2 2 2 2 2 and
// y_pred = 0 0 1 1 0 2 2 2 1 0, and class 3 of neither.
TEST(ClassQuality, IsPrecisionRecallAndF1) {
  const auto c =
      class_quality(std::vector<int64_t>{2, 1, 0, 0, 1, 1, 0, 0, 1, 1, 3, 0, 0, 0, 0, 0});
  ASSERT_EQ(c.size(), 4u);
  EXPECT_DOUBLE_EQ(*c[0].precision(), 0.5);
  EXPECT_DOUBLE_EQ(*c[0].recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(*c[0].f1(), 4.0 / 7);
  EXPECT_DOUBLE_EQ(*c[1].precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(*c[1].recall(), 0.5);
  EXPECT_DOUBLE_EQ(*c[1].f1(), 0.4);
  EXPECT_DOUBLE_EQ(*c[2].precision(), 1);
  EXPECT_DOUBLE_EQ(*c[2].recall(), 0.6);
  EXPECT_DOUBLE_EQ(*c[2].f1(), 0.75);
  EXPECT_FALSE(c[3].precision() || c[3].recall() || c[3].f1());
  EXPECT_DOUBLE_EQ(*macro_f1(c), (4.0 / 7 + 0.4 + 0.75) / 3);
}

TEST(ClassQuality, OfAClassThatIsNeverPredictedIsZero) {
  const auto c = class_quality(std::vector<int64_t>{0, 2, 0, 3});
  EXPECT_FALSE(c[0].precision());
  EXPECT_DOUBLE_EQ(*c[0].recall(), 0);
  EXPECT_DOUBLE_EQ(*c[0].f1(), 0);
  EXPECT_FALSE(macro_f1(class_quality({})));
  EXPECT_FALSE(macro_f1(class_quality(std::vector<int64_t>{0})));
}

// By hand, in bins of a fifteenth, each closed above.
TEST(CalibrationError, IsTheMeanDistanceOfBins) {
  CalibrationError e;
  EXPECT_FALSE(e.value());
  e.add(0.9, true);  // with the next one in bin 14: |1 - 1.82|
  e.add(0.92, false);
  e.add(0.5, true);  // in bin 8: |2 - 1.01|
  e.add(0.51, true);
  e.add(1, true);  // in the last: 0
  EXPECT_NEAR(*e.value(), (0.82 + 0.99) / 5, 1e-12);
  CalibrationError edge;
  edge.add(0, false);
  edge.add(1.0 / 15, false);  // the first bin too
  EXPECT_NEAR(*edge.value(), 1.0 / 30, 1e-12);
}

TEST(CalibrationError, IsSmallWhereProbabilitiesAreShares) {
  CalibrationError honest, boastful;
  for (int i = 0; i < 1000; ++i) {
    honest.add(0.8, i % 5 != 0);
    boastful.add(0.99, i % 5 != 0);
  }
  EXPECT_NEAR(*honest.value(), 0, 1e-12);
  EXPECT_NEAR(*boastful.value(), 0.19, 1e-12);
}

}  // namespace
}  // namespace ndtrain
