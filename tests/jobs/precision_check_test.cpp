#include "ndp/jobs/precision_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

// `n` labelled photos, of which only f32 gets `lost` right and only the other `gained`.
PrecisionCheck labelled(int n, int lost, int gained) {
  PrecisionCheck c;
  for (int i = 0; i < n; ++i) {
    const bool worse = i < lost, better = !worse && i < lost + gained;
    c.add(better ? 1 : 0, worse ? 1 : 0, 0, 0.999);
  }
  return c;
}

TEST(PrecisionCheck, CountsPairs) {
  const PrecisionCheck c = labelled(200, 3, 1);
  EXPECT_EQ(c.photos, 200);
  EXPECT_DOUBLE_EQ(c.agreement(), 0.98);
  EXPECT_DOUBLE_EQ(c.drop(), 1.0);
  EXPECT_NEAR(c.cosine(), 0.999, 1e-9);
  EXPECT_GT(c.drop_bound(), 1.0);
  EXPECT_LT(c.drop_bound(), 4.0);
}

TEST(PrecisionCheck, ABothWrongAnswerThatChangesIsNoDrop) {
  PrecisionCheck c;
  c.add(1, 2, 0, 1);
  EXPECT_EQ(c.drop(), 0);
  EXPECT_EQ(c.agreement(), 0);
}

TEST(PrecisionCheck, WithoutLabelsEveryChangeCounts) {
  PrecisionCheck c;
  for (int i = 0; i < 100; ++i) c.add(0, i < 2, -1, 1);
  EXPECT_DOUBLE_EQ(c.drop(), 2.0);
  EXPECT_EQ(judge(c, 0.5), PrecisionVerdict::kRefused);
  EXPECT_THAT(describe(c, 0.5), HasSubstr("nothing says what the photos show"));
}

TEST(PrecisionCheck, FewPhotosCannotTellAndManyCan) {
  EXPECT_EQ(judge(labelled(0, 0, 0), 0.5), PrecisionVerdict::kTooFew);
  EXPECT_EQ(judge(labelled(20, 0, 0), 0.5), PrecisionVerdict::kTooFew);
  EXPECT_EQ(judge(labelled(1000, 0, 0), 0.5), PrecisionVerdict::kAccepted);
  EXPECT_EQ(judge(labelled(1000, 20, 20), 0.5), PrecisionVerdict::kTooFew);
  EXPECT_EQ(judge(labelled(1000, 20, 20), 2), PrecisionVerdict::kAccepted);
  EXPECT_EQ(judge(labelled(1000, 20, 10), 0.5), PrecisionVerdict::kRefused);
  EXPECT_THAT(describe(labelled(20, 0, 0), 0.5), HasSubstr("too few photos to tell, about"));
}

TEST(PrecisionCheck, AsManyPhotosAsItNamesWouldTell) {
  const PrecisionCheck few = labelled(100, 1, 1);
  const int64_t needed = few.photos_for(0.5);
  ASSERT_GT(needed, 100);
  const int times = static_cast<int>(needed / 100);
  EXPECT_EQ(judge(labelled(100 * (times + 1), times + 1, times + 1), 0.5),
            PrecisionVerdict::kAccepted);
  EXPECT_EQ(judge(labelled(100 * (times / 2), times / 2, times / 2), 0.5),
            PrecisionVerdict::kTooFew);
  EXPECT_EQ(labelled(100, 5, 0).photos_for(0.5), 0);
}

}  // namespace
}  // namespace ndtrain::ndp
