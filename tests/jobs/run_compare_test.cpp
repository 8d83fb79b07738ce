#include "ndp/jobs/run_compare.h"

#include <gmock/gmock.h>

#include "framework/core/json.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunSummary summary_of(Settings asked) {
  return {.path = "runs/<a>",
          .notes = {},
          .settings = {.asked = std::move(asked),
                       .version = "1",
                       .numerics = "cpu",
                       .model = std::string(64, 'a'),
                       .photos = "3 to train on, 1 to validate",
                       .digest = std::string(64, 'b')}};
}

std::vector<std::string> names_of(const std::vector<RunDifference>& all) {
  std::vector<std::string> names;
  for (const RunDifference& d : all) names.push_back(d.what);
  return names;
}

TEST(RunCompare, SettingsThatDifferAreThereOnceForAllRuns) {
  const RunSummary runs[] = {
      summary_of({{"DATA", "x"}, {"epochs", "3"}, {"lr", "0.1"}, {"nesterov", "false"}}),
      summary_of({{"DATA", "y"}, {"epochs", "3"}, {"lr", "0.2"}}),
      summary_of({{"DATA", "x"}, {"epochs", "3"}, {"lr", "0.1"}, {"patience", "2"}})};
  const std::vector<RunDifference> all = different_settings(runs);
  EXPECT_THAT(names_of(all), ElementsAre("--lr", "--patience"));
  EXPECT_THAT(all[0].values, ElementsAre("0.1", "0.2", "0.1"));
  EXPECT_THAT(all[1].values, ElementsAre("", "", "2"));
  EXPECT_THAT(different_inputs(runs), IsEmpty()) << "the same photos from another place";
}

TEST(RunCompare, InputsThatDifferSayWhereTheyAreFrom) {
  RunSummary runs[] = {summary_of({{"DATA", "x"}, {"model", "m.onnx"}}),
                       summary_of({{"DATA", "y"}, {"model", "n.onnx"}})};
  runs[1].settings.model[0] = 'c';
  EXPECT_THAT(names_of(different_inputs(runs)), ElementsAre("model id", "--model"));
  runs[1].settings.digest[0] = 'c';
  runs[1].settings.numerics = "cuda";
  EXPECT_THAT(names_of(different_inputs(runs)),
              ElementsAre("model id", "--model", "photos and labels", "DATA", "computed by"));
}

// Of cat, dog and eel before; of cow, cat and dog after.
std::vector<RunSummary> with_classes() {
  std::vector<RunSummary> runs = {summary_of({}), summary_of({})};
  runs[0].classes = {"cat", "dog", "eel"};
  runs[0].confusion = {4, 0, 0, 0, 2, 2, 0, 0, 4};
  runs[1].classes = {"cow", "cat", "dog"};
  runs[1].confusion = {1, 0, 0, 2, 2, 0, 0, 0, 4};
  return runs;
}

TEST(RunCompare, TheLargestFallOfAClassIsFirst) {
  const std::vector<RunSummary> runs = with_classes();
  const std::vector<ClassChange> all = class_changes(runs[0], runs[1]);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "cat");
  EXPECT_DOUBLE_EQ(*all[0].f1(), 2.0 / 3 - 1);
  EXPECT_DOUBLE_EQ(*all[0].after->recall(), 0.5);
  EXPECT_DOUBLE_EQ(*all[0].after->precision(), 1);
  EXPECT_EQ(all[1].name, "dog");
  EXPECT_DOUBLE_EQ(*all[1].f1(), 1 - 2.0 / 3);
  EXPECT_EQ(all[2].name, "cow");
  EXPECT_FALSE(all[2].before);
  EXPECT_EQ(all[3].name, "eel");
  EXPECT_FALSE(all[3].after);
  EXPECT_THAT(class_changes(runs[0], summary_of({})), IsEmpty());
}

TEST(RunCompare, ThePageStandsAloneAndTextIsEscaped) {
  std::vector<RunSummary> runs = with_classes();
  runs[0].notes.name = "<script>";
  runs[1].classes[0] = "<cow>";
  runs[1].settings.asked = {{"lr", "<b>"}};
  for (RunSummary& r : runs) {
    r.epochs = {{.epoch = 1, .train_loss = 1, .train_top5 = std::nullopt, .val = std::nullopt},
                {.epoch = 2, .train_loss = 2, .train_top5 = std::nullopt, .val = std::nullopt}};
  }
  const std::string page = comparison_html(runs);
  EXPECT_THAT(page,
              AllOf(HasSubstr("&lt;script&gt;"), HasSubstr("&lt;cow&gt;"), HasSubstr("&lt;b&gt;"),
                    HasSubstr("<polyline"), HasSubstr("only in B"), HasSubstr("runs/&lt;a&gt;")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("http")), Not(HasSubstr("<b>")),
                          Not(HasSubstr("nan"))));
  EXPECT_EQ(page, comparison_html(runs));
  const Json json = comparison_json(runs);
  EXPECT_EQ(json.at("classes").at(0).at("changes").at(0).at("class"), "cat");
  EXPECT_EQ(json.at("settings").at(0).at("values").at(1), "<b>");
  EXPECT_EQ(json.at("runs").at(0).at("history").size(), 2U);
}

}  // namespace
}  // namespace ndtrain::ndp
