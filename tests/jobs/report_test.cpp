#include "ndp/jobs/report.h"

#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

ReportInput input() {
  return {.title = "<run> & co",
          .facts = {{"a", "<b>"}},
          .classes = {"cat", "dog \"x\""},
          .epochs = {{.epoch = 1, .train_loss = 1, .val = EpochRow::Validation{.loss = 2}},
                     {.epoch = 2, .train_loss = 0.5, .val = EpochRow::Validation{.loss = 1}}},
          .best_epoch = 2,
          .confusion = {3, 1, 0, 4},
          .photos = {{"/gone.jpg", 0, 1, 0.1F}}};
}

TEST(Report, TextIsEscapedAndThePageStandsAlone) {
  MemoryFs fs;
  const std::string page = report_html(fs, input());
  EXPECT_EQ(page.find("<run>"), std::string::npos);
  EXPECT_NE(page.find("&lt;run&gt; &amp; co"), std::string::npos);
  EXPECT_NE(page.find("dog &quot;x&quot;"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "nothing is loaded from elsewhere";
  EXPECT_NE(page.find("<polyline"), std::string::npos);
  EXPECT_NE(page.find("0.750"), std::string::npos) << "recall of cat";
}

TEST(Report, IsAFunctionOfItsInput) {
  MemoryFs fs;
  EXPECT_EQ(report_html(fs, input()), report_html(fs, input()));
}

TEST(Report, ConfusionCsvHasARowPerTrueClass) {
  EXPECT_EQ(confusion_csv({"cat", "dog, small"}, {3, 1, 0, 4}),
            "truth,cat,\"dog, small\"\ncat,3,1\n\"dog, small\",0,4\n");
}

}  // namespace
}  // namespace ndtrain::ndp
