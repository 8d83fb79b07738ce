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
  EXPECT_NE(page.find("<td>1.000</td><td>0.750</td><td>0.857</td>"), std::string::npos)
      << "precision, recall and F1 of cat";
}

TEST(Report, OfManyClassesHasThoseWithTheLeastF1) {
  MemoryFs fs;
  ReportInput many = input();
  constexpr size_t kMany = 60;
  many.photos.clear();
  many.classes.clear();
  many.confusion.assign(kMany * kMany, 0);
  for (size_t i = 0; i < kMany; ++i) {
    many.classes.push_back("class " + std::to_string(i));
    many.confusion[i * kMany + i] = 2;
  }
  many.confusion[7 * kMany + 8] = 6;
  const std::string page = report_html(fs, many);
  EXPECT_NE(
      page.find("<tr><td>class 7</td><td>8</td><td>1.000</td><td>0.250</td><td>0.400</td></tr>"),
      std::string::npos);
  EXPECT_LT(page.find("<td>class 7</td><td>8</td>"), page.find("<td>class 8</td><td>2</td>"));
  EXPECT_EQ(page.find("<td>class 59</td><td>2</td>"), std::string::npos);
}

TEST(Report, SaysHowGoodTheClassesAreInTheMean) {
  EXPECT_EQ(macro_f1_text({3, 1, 0, 4}), "0.8730");  // of 6/7 and 8/9
  EXPECT_EQ(macro_f1_text({0, 0, 0, 0}), "-");
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
