#include "framework/train/step_rows.h"

#include <gtest/gtest.h>

#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain {
namespace {

using testing::small_net, testing::stripes;

TEST(StepRows, AreFoundFirstOrAmongTheFiveBest) {
  const Tensor logits =
      Tensor::of<float>(DType::kF32, {5, 7}, {9, 0, 0, 0, 0, 0, 0,  // first
                                              1, 2, 3, 4, 5, 6, 7,  // fifth
                                              1, 2, 3, 4, 5, 6, 7,  // sixth
                                              5, 5, 5, 5, 5, 5, 1,  // five others as high
                                              9, 0, 0, 0, 0, 0, 0});
  Tensor labels = Tensor::of<int64_t>(DType::kI64, {5}, {0, 2, 1, 5, 0});
  Tensor weights({DType::kF32, {5}});
  ShardReport report{.loss = 1, .hits = 2, .top5 = 3};
  add_rows(report, 0.5F, logits, {{}, labels, weights}, 4);
  EXPECT_EQ(report.loss, 1.5F);
  EXPECT_EQ(report.hits, 2 + 1);
  EXPECT_EQ(report.top5, 3 + 3);
}

// Nothing is learned, so that all steps see one model.
TEST(StepRows, OfAnEpochAreCountedAsAnEvaluationCountsThem) {
  const Model m = small_net(false, 0, 9);
  TensorDataset data = stripes(50, 3);
  for (const int shards : {1, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      Trainer t(m, testing::weights_of(m), testing::cpu(),
                {.epochs = 1,
                 .batch = 12,
                 .schedule = {.lr = 0},
                 .accumulate = accumulate,
                 .shards = shards});
      EpochResult r;
      ASSERT_TRUE(t.train_epoch(data, r));
      const Evaluation e = t.evaluate(data);
      EXPECT_DOUBLE_EQ(r.top1, e.top1);
      EXPECT_DOUBLE_EQ(r.top5, e.top5);
      EXPECT_TRUE(e.top5 > e.top1 && e.top5 < 1) << e.top5;
    }
  }
}

}  // namespace
}  // namespace ndtrain
