// The verbs that compare photos by what a model sees in them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using namespace testing_cli;
using nlohmann::json;
using ::testing::HasSubstr;

// Eleven photos of each of two scenes that differ in a pixel, a0.jpg and so on and b0.jpg and so
// on, in a database that says nothing of them yet; a network of random weights sees what they are.
class AlikePhotosTest : public ProgramTest {
 protected:
  static constexpr int kOfAScene = 11;

  void SetUp() override {
    ProgramTest::SetUp();
    std::filesystem::create_directories(at("photos"));
    for (int scene = 0; scene < 2; ++scene) {
      Image photo = cli::draw_demo_photo(scene, cli::Look::kDay, 3);
      for (int i = 0; i < kOfAScene; ++i) {
        uint8_t& value = photo.row(0)[9 * i];
        value = static_cast<uint8_t>(value < 128 ? 255 : 0);
        publish(real_fs(), at("photos/" + name(scene, i)), encode_jpeg(photo)).or_throw();
      }
    }
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    ask({"relabel", "photos", "-m", "m.onnx", "--task", "other"});
    publish(real_fs(), at("two.csv"), "path,label\na0.jpg,a\nb0.jpg,b\n").or_throw();
  }
  static std::string name(int scene, int i) {
    return (scene == 0 ? "a" : "b") + std::to_string(i) + ".jpg";
  }
  // All but a4.jpg as what they are.
  void import_truth() {
    std::string csv = "path,label\n";
    for (int scene = 0; scene < 2; ++scene) {
      for (int i = 0; i < kOfAScene; ++i) {
        csv += name(scene, i) + (scene == 0 && i != 4 ? ",a\n" : ",b\n");
      }
    }
    publish(real_fs(), at("truth.csv"), csv).or_throw();
    ask({"labels", "import", "truth.csv"});
  }
  static std::vector<std::string> with(std::vector<std::string> words) {
    const bool uses_cache = words[0] == "relabel" || words[1] == "refine" ||
                            words[1] == "suggest" || words[1] == "duplicates";
    if (words[0] != "photos") words.insert(words.end(), {"--db", "sqlite:labels.db"});
    if (uses_cache) words.insert(words.end(), {"--cache", "cache"});
    return words;
  }
  json ask(std::vector<std::string> words) {
    words = with(std::move(words));
    words.emplace_back("--json");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? json::parse(o.out) : json();
  }
  json refine(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"labels", "refine", "photos", "-m", "m.onnx"};
    words.insert(words.end(), more.begin(), more.end());
    return ask(words);
  }
  std::string refusal(const std::vector<std::string>& words) {
    const Outcome o = run(with(words));
    EXPECT_EQ(o.code == 1 || o.code == 2, true) << o.code;
    return o.err;
  }
  std::string label_of(const std::string& path) {
    return ask({"labels", "query", "--path", path})[0].at("label");
  }
};

TEST_F(AlikePhotosTest, RefineListsAWrongLabelAndChangesItWhereThatIsAllowed) {
  import_truth();
  const json listed = refine({"--dry-run", "--scores", "scores.csv"});
  EXPECT_EQ(listed.at("looked_at"), 2 * kOfAScene);
  ASSERT_EQ(listed.at("issues").size(), 1U) << listed;
  const json& issue = listed.at("issues")[0];
  EXPECT_EQ(issue.at("path"), "a4.jpg");
  EXPECT_EQ(issue.at("label"), "b");
  EXPECT_EQ(issue.at("suggested"), "a");
  EXPECT_EQ(issue.at("source"), "import");
  EXPECT_LT(issue.at("probability"), issue.at("suggested_probability"));
  EXPECT_THAT(real_fs().read(at("scores.csv")).or_throw(), HasSubstr("path,label,a,b\n"));
  const auto first = [&] { return ask({"labels", "review", "-n", "2"}); };
  EXPECT_TRUE(first().empty()) << "of a dry run";
  EXPECT_EQ(refine().at("applied"), 0);
  EXPECT_EQ(first().at(0).at("path"), "a4.jpg");
  EXPECT_EQ(first().at(0).at("suggested"), "a");
  EXPECT_EQ(label_of("a4.jpg"), "b");

  EXPECT_EQ(refine({"--apply", "10%", "-o", "was.csv"}).at("applied"), 1);
  EXPECT_EQ(label_of("a4.jpg"), "a");
  EXPECT_TRUE(first().empty());
  ask({"labels", "import", "was.csv"});
  EXPECT_EQ(label_of("a4.jpg"), "b");
}

TEST_F(AlikePhotosTest, RefineChangesNothingOfAPersonsOrBeyondTheBound) {
  import_truth();
  ask({"labels", "set", "a4.jpg", "b"});
  EXPECT_EQ(refine({"--apply", "5", "-o", "was.csv"}).at("applied"), 0);
  EXPECT_EQ(label_of("a4.jpg"), "b");
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"labels", "refine", "photos", "-m", "m.onnx"};
    words.insert(words.end(), more.begin(), more.end());
    return refusal(words);
  };
  EXPECT_THAT(refused({"--apply", "5"}), HasSubstr("needs -o FILE"));
  EXPECT_THAT(refused({"--apply", "some", "-o", "x.csv"}), HasSubstr("--apply some"));
  EXPECT_THAT(refused({"--apply", "5", "-o", "was.csv"}), HasSubstr("is there already"));
  EXPECT_THAT(refused({"--apply", "5", "-o", "x.csv", "--dry-run"}), HasSubstr("one of them"));
  EXPECT_THAT(refused({"-o", "x.csv"}), HasSubstr("give both"));
  EXPECT_FALSE(real_fs().exists(at("x.csv")));
}

TEST_F(AlikePhotosTest, SuggestLabelsTheOthersByAVersionThatCanBeTakenBack) {
  ask({"labels", "import", "two.csv"});
  const std::vector<std::string> suggest = {"labels", "suggest", "photos", "-m", "m.onnx"};
  std::vector<std::string> dry = suggest;
  dry.emplace_back("--dry-run");
  EXPECT_EQ(ask(dry).at("to_label"), 2 * kOfAScene - 2);
  EXPECT_EQ(ask({"labels", "query"}).size(), 2U);
  const json said = ask(suggest);
  EXPECT_EQ(said.at("labelled"), 2 * kOfAScene - 2);
  EXPECT_EQ(said.at("by_class").at("a"), kOfAScene - 1);
  const json rows = ask({"labels", "query", "--source", "model"});
  ASSERT_EQ(rows.size(), 2U * kOfAScene - 2);
  for (const json& row : rows) {
    EXPECT_EQ(row.at("label"), row.at("path").get<std::string>().substr(0, 1));
    EXPECT_EQ(row.at("content"), said.at("content"));
  }
  EXPECT_EQ(ask(suggest).at("labelled"), 0) << "all of it is there";
  ask({"labels", "undo", said.at("content"), "--yes"});
  EXPECT_EQ(ask({"labels", "query"}).size(), 2U);
  EXPECT_THAT(refusal(suggest), HasSubstr("was undone: label others"));
  ask({"labels", "set", "a1.jpg", "a"});
  EXPECT_EQ(ask(suggest).at("labelled"), 2 * kOfAScene - 3);
}

TEST_F(AlikePhotosTest, DuplicatesAreListedInGroups) {
  for (const bool by_features : {false, true}) {
    std::vector<std::string> words = {"photos", "duplicates", "photos"};
    if (by_features) words.insert(words.end(), {"-m", "m.onnx", "--similarity", "0.999"});
    const json found = ask(words);
    EXPECT_EQ(found.at("photos"), 2 * kOfAScene);
    ASSERT_EQ(found.at("groups").size(), 2U) << found;
    for (const json& group : found.at("groups")) {
      EXPECT_EQ(group.size(), kOfAScene);
      for (const json& p : group) {
        EXPECT_EQ(p.at("path").get<std::string>()[0], group[0].at("path").get<std::string>()[0]);
        EXPECT_EQ(p.at("similarity").is_number(), by_features);
      }
    }
  }
  EXPECT_THAT(refusal({"photos", "duplicates", "photos", "--similarity", "0.9"}),
              HasSubstr("with -m"));
  EXPECT_THAT(refusal({"photos", "duplicates", "photos", "--bits", "65"}), HasSubstr("65"));
}

}  // namespace
}  // namespace ndtrain
