// The verbs of the label database, over one that two versions have filled.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ndp/labels/label_db.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

using namespace testing_cli;
using nlohmann::json;
using testing::HasSubstr;

class LabelsVerbsTest : public ProgramTest {
 protected:
  // Twelve photos: version 1 says a, version 2 says b of the first four; store attic made the
  // first six labels of each.
  void SetUp() override {
    ProgramTest::SetUp();
    const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
    const int64_t collection = db->collection(kDefaultCollection).or_throw();
    const int64_t task = db->task(kDefaultTask).or_throw();
    const std::vector<std::string> names{"a", "b"};
    const auto classes = db->class_ids(task, names).or_throw();
    std::vector<PhotoPlace> places;
    for (int i = 0; i < 12; ++i) {
      places.push_back({"p" + std::to_string(i) + ".jpg", sha256(std::to_string(i))});
    }
    const auto photos = db->add_photos(collection, places).or_throw();
    const int64_t attic = db->store("attic").or_throw(), cellar = db->store("cellar").or_throw();
    for (const int64_t v : {1, 2}) {
      const int64_t version =
          db->version(task, {.content = sha256("v" + std::to_string(v)), .created = v}).or_throw();
      ASSERT_EQ(version, v);
      db->put_in_force(task, version).or_throw();
      LabelBatch batch{.task = task, .version = version};
      for (size_t i = 0; i < (v == 1 ? 12 : 8); ++i) {
        batch.labels.push_back({.photo = photos[i],
                                .class_id = classes[v == 2 && i < 4 ? 1 : 0],
                                .score = 0.5 + 0.01 * static_cast<double>(i),
                                .time = 100 * v,
                                .store = i < 6 ? attic : cellar});
      }
      db->put_labels(batch).or_throw();
    }
  }

  json ask(std::vector<std::string> words) {
    words.insert(words.begin(), "labels");
    words.insert(words.end(), {"--db", "sqlite:labels.db", "--json"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? json::parse(o.out) : json();
  }
  std::string refusal(std::vector<std::string> words) {
    words.insert(words.begin(), "labels");
    words.insert(words.end(), {"--db", "sqlite:labels.db"});
    const Outcome o = run(words);
    EXPECT_NE(o.code, 0);
    return o.err;
  }
};

TEST_F(LabelsVerbsTest, QueryFindsByStoreVersionAndStaleness) {
  EXPECT_EQ(ask({"query"}).size(), 12u);
  EXPECT_EQ(ask({"query", "--stale"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--store", "attic"}).size(), 6u);
  EXPECT_EQ(ask({"query", "--version", "1"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--version", to_hex(sha256("v2")).substr(0, 8)}).size(), 8u);
  EXPECT_EQ(ask({"query", "--version", "in-force", "--label", "b"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--stale", "--limit", "3"})[0].at("store"), "cellar");
  EXPECT_THAT(refusal({"query", "--store", "roof"}), HasSubstr("attic, cellar"));
  EXPECT_THAT(refusal({"query", "--version", "7"}), HasSubstr("there are 2 ("));
}

TEST_F(LabelsVerbsTest, DiffCountsAndListsAndUndoTakesBack) {
  const json diff = ask({"diff", "--from", "1", "--to", "2"});
  EXPECT_EQ(diff.at("same"), 4);
  EXPECT_EQ(diff.at("changed"), 4);
  EXPECT_EQ(diff.at("only_from"), 4);
  EXPECT_EQ(diff.at("changes")[0], json({{"from", "a"}, {"to", "b"}, {"photos", 4}}));
  const json photos = ask({"diff", "--from", "1", "--to", "2", "--photos", "--limit", "3"});
  ASSERT_EQ(photos.size(), 3u);
  EXPECT_EQ(photos[2].at("path"), "p2.jpg");
  EXPECT_EQ(ask({"diff", "--from", "1", "--to", "2", "--photos", "--was", "b"}).size(), 0u);

  const json undone = ask({"undo", "in-force"});
  EXPECT_EQ(undone.at("withdrawn"), 8);
  EXPECT_EQ(undone.at("restored"), 8);
  EXPECT_EQ(undone.at("in_force"), 1);
  EXPECT_EQ(ask({"undo", "2"}).at("withdrawn"), 0);
  EXPECT_EQ(ask({"query", "--label", "b"}).size(), 0u);
  const json history = ask({"history", "p0.jpg"});
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].at("withdrawn"), true);
  EXPECT_EQ(ask({"stats"}).at("versions")[0].at("undone"), true);
}

TEST_F(LabelsVerbsTest, AReviewsAnswersBecomeTruthAndSayHowGoodTheVersionIs) {
  const Outcome list = run({"labels", "review", "-n", "6", "--db", "sqlite:labels.db"});
  ASSERT_EQ(list.code, 0) << list.err;
  // Whatever was said, it is an a.
  std::string answers = list.out;
  for (size_t i = 0; (i = answers.find(",b,", i)) != answers.npos; ++i) answers[i + 1] = 'a';
  publish(real_fs(), at("answers.csv"), answers).or_throw();
  EXPECT_EQ(ask({"review", "--answers", "answers.csv"}).at("added"), 6);
  EXPECT_EQ(ask({"query", "--source", "human"}).size(), 6u);
  const json first = ask({"accuracy", "--version", "1"});
  EXPECT_EQ(first.at("truths"), 6);
  EXPECT_EQ(first.at("all").at("agree"), 6);
  EXPECT_EQ(first.at("at_random").at("photos"), 3);
  EXPECT_NEAR(first.at("at_random").at("low").get<double>(), 0.4385, 1e-4);
  EXPECT_EQ(first.at("at_random").at("high"), 1);
  const json second = ask({"accuracy"});
  EXPECT_LT(second.at("all").at("agree"), second.at("all").at("photos"));
  EXPECT_THAT(run({"labels", "accuracy", "--db", "sqlite:labels.db"}).out,
              HasSubstr("drawn at random"));
}

TEST_F(LabelsVerbsTest, AReviewMayBeAnsweredLineByLine) {
  publish(real_fs(), at("in"), "\ns\nbird\nq\n").or_throw();
  const json asked = ask({"review", "-n", "6", "--ask"});
  EXPECT_EQ(asked.at("answered"), 2);
  const json said = ask({"query", "--source", "human"});
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(ask({"query", "--label", "bird"}).size(), 1u);
  publish(real_fs(), at("in"), "").or_throw();
  EXPECT_EQ(ask({"review", "-n", "6", "--ask"}).at("answered"), 0) << "the input is at its end";
}

TEST_F(LabelsVerbsTest, ExportedLinesComeBackAsTruth) {
  EXPECT_EQ(ask({"set", "p9.jpg", "b"}).at("source"), "human");
  ASSERT_EQ(ask({"export", "--source", "human", "-o", "people.jsonl"}).at("rows"), 1);
  const json r = ask({"import", "people.jsonl", "--as", "truth", "--task", "other"});
  EXPECT_EQ(r.at("added"), 1);
  EXPECT_EQ(ask({"query", "--task", "other"})[0].at("source"), "human");
  EXPECT_THAT(refusal({"import", "people.jsonl", "--as", "lie"}), HasSubstr("truth"));
  EXPECT_THAT(refusal({"import", "people.jsonl", "--as", "truth", "--source", "human"}),
              HasSubstr("one of them"));
}

TEST_F(LabelsVerbsTest, ARemovedPhotoIsGoneAndItsFileIsNot) {
  publish(real_fs(), at("p3.jpg"), "bytes").or_throw();
  EXPECT_EQ(ask({"rm", "p3.jpg"}).at("removed"), "p3.jpg");
  EXPECT_THAT(refusal({"history", "p3.jpg"}), HasSubstr("no photo 'p3.jpg'"));
  EXPECT_THAT(refusal({"rm", "p3.jpg"}), HasSubstr("no photo 'p3.jpg'"));
  EXPECT_EQ(ask({"stats"}).at("photos"), 11);
  EXPECT_TRUE(real_fs().exists(at("p3.jpg")));
  EXPECT_THAT(real_fs().read(at("labels.db")).or_throw(), testing::Not(HasSubstr("p3.jpg")));
}

TEST_F(LabelsVerbsTest, AnUnknownPhotoIsNamedWithTheRemedy) {
  EXPECT_THAT(refusal({"set", "nowhere.jpg", "a"}), HasSubstr("relabel its directory first"));
}

TEST_F(LabelsVerbsTest, TheBenchReportsRatesAndRefusesAFilledDatabase) {
  const std::vector<std::string> bench = {"bench",    "labels", "--db",      "sqlite:bench.db",
                                          "--photos", "3000",   "--classes", "10",
                                          "-b",       "1000",   "--json"};
  const Outcome o = run(bench);
  ASSERT_EQ(o.code, 0) << o.err;
  const json result = json::parse(o.out);
  EXPECT_GT(result.at("relabelled_per_s"), 0);
  EXPECT_GT(result.at("all_stale_query_ms"), 0);
  EXPECT_EQ(run(bench).code, 1);
}

}  // namespace
}  // namespace ndtrain
