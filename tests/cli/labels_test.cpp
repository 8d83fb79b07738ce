// The verbs of the label database, over one that two versions have filled.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "ndp/labels/label_db.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using namespace testing_cli;
using nlohmann::json;
using ::testing::HasSubstr;

// Somebody at a terminal, which the program has at `path` as its input.
class Terminal {
 public:
  explicit Terminal(const std::string& path) : end_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_GE(end_, 0);
    EXPECT_EQ(grantpt(end_), 0);
    EXPECT_EQ(unlockpt(end_), 0);
    program_ = open(ptsname(end_), O_RDWR | O_NOCTTY);  // so that it stays from run to run
    std::filesystem::create_symlink(ptsname(end_), path);
  }
  ~Terminal() {
    close(program_);
    close(end_);
  }
  void type(std::string_view text) const {
    EXPECT_EQ(write(end_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  const int end_;
  int program_ = -1;
};

class LabelsVerbsTest : public ProgramTest {
 protected:
  // Twelve photos: version 6 says a, version 7 says b of the first four; store attic made the
  // first six labels of each. The database counts versions otherwise than the Tuner.
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
      const NewVersion made{.number = 5 + v, .content = content(5 + v), .created = v};
      const int64_t version = db->version(task, made).or_throw();
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

  static Digest content(int64_t version) { return sha256("v" + std::to_string(version)); }
  static std::string prefix(int64_t version) { return to_hex(content(version)).substr(0, 12); }

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

TEST_F(LabelsVerbsTest, RmForgetsAPhotoAndAllItsLabels) {
  ASSERT_EQ(ask({"history", "p0.jpg"}).size(), 2U);
  ask({"rm", "p0.jpg"});
  EXPECT_EQ(ask({"query"}).size(), 11U);
  EXPECT_THAT(refusal({"history", "p0.jpg"}), HasSubstr("p0.jpg"));
  EXPECT_THAT(refusal({"rm", "p0.jpg"}), HasSubstr("p0.jpg"));
}

TEST_F(LabelsVerbsTest, QueryFindsByStoreVersionAndStaleness) {
  EXPECT_EQ(ask({"query"}).size(), 12u);
  EXPECT_EQ(ask({"query", "--stale"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--store", "attic"}).size(), 6u);
  EXPECT_EQ(ask({"query", "--version", "6"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--version", prefix(7).substr(0, 8)}).size(), 8u);
  EXPECT_EQ(ask({"query", "--version", "in-force", "--label", "b"}).size(), 4u);
  EXPECT_EQ(ask({"query", "--path", "p1"}).size(), 3u) << "p1, p10 and p11";
  EXPECT_EQ(ask({"query", "--path", "p1", "--stale"}).size(), 2u);
  EXPECT_EQ(ask({"query", "--stale", "--limit", "3"})[0].at("store"), "cellar");
  EXPECT_THAT(refusal({"query", "--store", "roof"}), HasSubstr("attic, cellar"));
  EXPECT_THAT(refusal({"query", "--version", "1"}), HasSubstr("there are 7 (" + prefix(7)));
}

TEST_F(LabelsVerbsTest, TimesAreShownAsPeopleReadThemAndComeBack) {
  const auto text = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "labels");
    words.insert(words.end(), {"--db", "sqlite:labels.db"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  EXPECT_THAT(text({"query"}), HasSubstr(",1970-01-01 00:03:20 UTC,"));
  EXPECT_THAT(text({"history", "p0.jpg"}), HasSubstr("1970-01-01 00:01:40 UTC,"));
  EXPECT_THAT(text({"stats"}), HasSubstr("1970-01-01 00:00:02 UTC"));
  EXPECT_EQ(ask({"query"})[0].at("time"), 200);
  publish(real_fs(), at("said.csv"), "path,label,time\np0.jpg,a,1970-01-01 00:05:00 UTC\n")
      .or_throw();
  EXPECT_EQ(ask({"import", "said.csv"}).at("added"), 1);
  EXPECT_EQ(ask({"history", "p0.jpg"})[0].at("time"), 300);
  publish(real_fs(), at("said.csv"), "path,label,time\np0.jpg,a,noon\n").or_throw();
  EXPECT_THAT(refusal({"import", "said.csv"}), HasSubstr("'noon' is no time"));
}

TEST_F(LabelsVerbsTest, DiffCountsAndListsAndUndoTakesBack) {
  const json diff = ask({"diff", "--from", "6", "--to", "7"});
  EXPECT_EQ(diff.at("from"), 6);
  EXPECT_EQ(diff.at("same"), 4);
  EXPECT_EQ(diff.at("changed"), 4);
  EXPECT_EQ(diff.at("only_from"), 4);
  EXPECT_EQ(diff.at("changes")[0], json({{"from", "a"}, {"to", "b"}, {"photos", 4}}));
  const json photos = ask({"diff", "--from", "6", "--to", "7", "--photos", "--limit", "3"});
  ASSERT_EQ(photos.size(), 3u);
  EXPECT_EQ(photos[2].at("path"), "p2.jpg");
  EXPECT_EQ(ask({"diff", "--from", "6", "--to", "7", "--photos", "--was", "b"}).size(), 0u);

  const json undone = ask({"undo", "in-force", "--yes"});
  EXPECT_EQ(undone.at("version"), 7);
  EXPECT_EQ(undone.at("content"), to_hex(content(7)));
  EXPECT_EQ(undone.at("withdrawn"), 8);
  EXPECT_EQ(undone.at("restored"), 8);
  EXPECT_EQ(undone.at("in_force"), 6);
  EXPECT_EQ(ask({"undo", "7"}).at("withdrawn"), 0);
  EXPECT_EQ(ask({"query", "--label", "b"}).size(), 0u);
  const json history = ask({"history", "p0.jpg"});
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].at("withdrawn"), true);
  EXPECT_EQ(ask({"stats"}).at("versions")[0].at("undone"), true);
}

TEST_F(LabelsVerbsTest, UndoSaysWhatItWillDoAndDoesItWhenTold) {
  const std::string what = "undoing version 7 (" + prefix(7) +
                           ") withdraws 8 labels: 8 of these photos get an earlier label again, 0 "
                           "have none then; in force is then version 6 (" +
                           prefix(6) + ")";
  publish(real_fs(), at("in"), "y\n").or_throw();
  const Outcome script = run({"labels", "undo", "7", "--db", "sqlite:labels.db"});
  EXPECT_EQ(script.code, 2) << "there is nobody to ask";
  EXPECT_THAT(script.err, AllOf(HasSubstr(what), HasSubstr("--yes")));
  EXPECT_THAT(refusal({"undo", "2", "--yes"}), HasSubstr("no version of this task is '2'"));
  EXPECT_EQ(ask({"query", "--version", "7"}).size(), 8u) << "nothing has changed";

  ASSERT_TRUE(real_fs().remove(at("in")).ok());
  const Terminal terminal(at("in"));
  terminal.type("n\n");
  const Outcome no = run({"labels", "undo", "7", "--db", "sqlite:labels.db"});
  EXPECT_EQ(no.code, 1);
  EXPECT_THAT(no.err, HasSubstr(what + ".\nDo it? [y/N] "));
  EXPECT_EQ(no.out, "nothing was changed\n");
  EXPECT_EQ(ask({"query", "--version", "7"}).size(), 8u);
  terminal.type("y\n");
  EXPECT_EQ(run({"labels", "undo", "7", "--db", "sqlite:labels.db"}).code, 0);
  EXPECT_EQ(ask({"query", "--version", "7"}).size(), 0u);
  EXPECT_THAT(run({"labels", "undo", "7", "--db", "sqlite:labels.db"}).err,
              HasSubstr("version 7 (" + prefix(7) + ") was undone before"));
}

TEST_F(LabelsVerbsTest, AVersionIsCalledByTheTunersNumberOrElseByItsContent) {
  {
    const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
    const int64_t task = db->task(kDefaultTask).or_throw();
    const std::vector<std::string> name{"a"};
    const int64_t version = db->version(task, {.content = content(3), .created = 3}).or_throw();
    ASSERT_EQ(version, 3) << "its number in the database, which nobody sees";
    const auto photos = db->photos_with(std::vector{sha256("0")}).or_throw();
    const NewLabel label{
        .photo = photos[0], .class_id = db->class_ids(task, name).or_throw()[0], .time = 300};
    db->put_labels({.task = task, .version = version, .labels = {label}}).or_throw();
    db->put_in_force(task, version).or_throw();
  }
  EXPECT_THAT(refusal({"query", "--version", "3"}), HasSubstr("there are " + prefix(3) + ", 7 ("));
  const json row = ask({"query", "--version", prefix(3)}).at(0);
  EXPECT_EQ(row.at("version"), prefix(3));
  EXPECT_EQ(row.at("content"), to_hex(content(3)));
  EXPECT_EQ(ask({"history", "p0.jpg"}).at(1).at("version"), 7);
  const json versions = ask({"stats"}).at("versions");
  EXPECT_EQ(versions.at(0).at("version"), prefix(3));
  EXPECT_EQ(versions.at(1).at("version"), 7);
  EXPECT_EQ(ask({"accuracy", "--version", "7"}).at("version"), 7);
  EXPECT_EQ(ask({"undo", "in-force", "--yes"}).at("in_force"), 7);
  const Outcome csv = run({"labels", "export", "--db", "sqlite:labels.db", "--version", "7"});
  EXPECT_THAT(csv.out, HasSubstr(",model,7," + to_hex(content(7)) + ","));
}

TEST_F(LabelsVerbsTest, ExportedJsonIsOneDocument) {
  const json rows = ask({"export"});
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[0].at("path"), "p0.jpg");
  EXPECT_EQ(ask({"export", "--label", "b", "--source", "human"}), json::array());
  EXPECT_THAT(refusal({"export", "--json", "--format", "csv"}), HasSubstr("give one"));
  ask({"set", "p9.jpg", "b"});
  ASSERT_EQ(ask({"export", "-o", "all.json"}).at("rows"), 12);
  EXPECT_EQ(ask({"import", "all.json", "--task", "other"}).at("added"), 1) << "the person's";
}

// What is exported says what photos show, in each of its forms.
TEST_F(LabelsVerbsTest, TrainReadsWhatWasExported) {
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  ASSERT_EQ(run({"relabel", "photos", "-m", "m.onnx", "--db", "sqlite:own.db"}).code, 0);
  const auto exported = [&](const std::string& file) {
    EXPECT_EQ(run({"labels", "export", "--db", "sqlite:own.db", "-o", file}).code, 0);
    return run({"train", "photos", "--labels", file, "-m", "m.onnx", "-o", "run-" + file, "-e", "1",
                "--head", "linear"});
  };
  const Outcome models = exported("models.csv");
  EXPECT_EQ(models.code, 1);
  EXPECT_THAT(models.err, HasSubstr("models.csv: all its 12 labels are a model's own"));
  for (int i = 0; i < 12; ++i) {
    const std::string c = "c" + std::to_string(i % 2);
    if (i >= 10) continue;  // what a model says of two photos stays
    const std::string photo = c + "/" + std::to_string(i) + ".jpg";
    ASSERT_EQ(run({"labels", "set", photo, c, "--db", "sqlite:own.db"}).code, 0);
  }
  for (const char* file : {"l.csv", "l.jsonl", "l.json"}) {
    const Outcome o = exported(file);
    ASSERT_EQ(o.code, 0) << file << o.err;
    EXPECT_THAT(o.err, HasSubstr("2 labels are a model's own and left out; the other 10 count"));
    EXPECT_EQ(real_fs().read(at("run-" + std::string(file) + "/classes.txt")).or_throw(),
              "c0\nc1\n");
  }
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
  const json first = ask({"accuracy", "--version", "6"});
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
  ASSERT_EQ(ask({"export", "--source", "human", "-o", "people.parquet"}).at("rows"), 1);
  EXPECT_EQ(real_fs().read(at("people.parquet")).or_throw().substr(0, 4), "PAR1");
  EXPECT_THAT(refusal({"import", "people.parquet"}), HasSubstr("is written, but not read"));
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
  EXPECT_THAT(real_fs().read(at("labels.db")).or_throw(), ::testing::Not(HasSubstr("p3.jpg")));
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
