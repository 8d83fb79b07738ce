// `ndtrain runs`: what trainings have left behind.
#include <gmock/gmock.h>

#include <filesystem>

#include "framework/core/json.h"
#include "framework/core/named_lock.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class Runs : public testing_cli::ProgramTest {
 protected:
  // Two runs in `runs`, of the same model and photos.
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    train("runs/a", {"-e", "2"});
    train("runs/more/b", {"-e", "3", "--lr", "0.01", "--nesterov"});
  }
  void train(const std::string& directory, std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "photos", "-m", "m.onnx", "-o", directory});
    const Outcome o = run(more);
    ASSERT_EQ(o.code, 0) << o.err;
  }
  std::vector<std::string> listed(std::vector<std::string> words) const {
    words.insert(words.begin(), {"runs", "ls", "--json"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    std::vector<std::string> paths;
    for (const Json& r : parse_json(o.out)) paths.push_back(r.at("run"));
    return paths;
  }
};

TEST_F(Runs, AreListedWithWhatTheyCameTo) {
  Outcome o = run({"runs", "ls", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json a = parse_json(o.out).at(0);
  EXPECT_EQ(a.at("run"), "runs/a");
  EXPECT_EQ(a.at("model"), "m.onnx");
  EXPECT_EQ(a.at("state"), "done");
  EXPECT_EQ(a.at("epochs"), 2);
  EXPECT_EQ(a.at("epochs_asked"), 2);
  EXPECT_GT(a.at("started"), 1'600'000'000);
  const Json shown = parse_json(run({"runs", "show", "runs/a", "--json"}).out);
  double best = -1;
  int64_t epoch = 0;
  for (const Json& row : shown.at("history")) {
    if (row.at("val_top1") > best) best = row.at("val_top1"), epoch = row.at("epoch");
  }
  EXPECT_EQ(a.at("top1"), best);
  EXPECT_EQ(a.at("best_epoch"), epoch);
  EXPECT_EQ(shown.at("settings").at("epochs"), "2");
  EXPECT_THAT(run({"runs", "ls"}).out, AllOf(HasSubstr("runs/a "), HasSubstr(" 2/2 "),
                                             HasSubstr(" done "), HasSubstr("runs/more/b ")));
  EXPECT_THAT(run({"runs", "show", "runs/a/"}).out,
              AllOf(HasSubstr("state         done\n"), HasSubstr("top-1         "),
                    HasSubstr("--epochs "), HasSubstr("macro F1      ")));
}

TEST_F(Runs, AreSortedAndLookedForWhereAsked) {
  EXPECT_THAT(listed({}), ElementsAre("runs/a", "runs/more/b"));
  EXPECT_THAT(listed({"runs/more", "runs/a"}), ElementsAre("runs/a", "runs/more/b"));
  const Json a = parse_json(run({"runs", "show", "runs/a", "--json"}).out),
             b = parse_json(run({"runs", "show", "runs/more/b", "--json"}).out);
  const bool a_first = a.at("top1") >= b.at("top1");
  EXPECT_EQ(listed({"--sort", "top1"}).front(), a_first ? "runs/a" : "runs/more/b");
  const bool a_less = a.at("val_loss") <= b.at("val_loss");
  EXPECT_EQ(listed({"--sort", "loss"}).front(), a_less ? "runs/a" : "runs/more/b");
  EXPECT_THAT(listed({"--sort", "name"}), ElementsAre("runs/a", "runs/more/b"));
  const Outcome o = run({"runs", "ls", "--sort", "size"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--sort size: there are time, name, top1 and loss"));
  EXPECT_THAT(run({"runs", "show", "photos"}).err, HasSubstr("photos: is no run; ndtrain runs ls"));
  std::filesystem::rename(at("runs"), at("elsewhere"));
  EXPECT_THAT(run({"runs", "ls"}).err, HasSubstr("there is no directory runs here"));
}

TEST_F(Runs, SayWhetherTheyAreTrainingNowOrWereInterrupted) {
  const auto state = [&] {
    return parse_json(run({"runs", "show", "runs/a", "--json"}).out).at("state");
  };
  {
    const auto held = lock_as(real_fs(), at("runs/a/lock"), "a test").or_throw();
    EXPECT_EQ(state(), "training");
  }
  EXPECT_EQ(state(), "done");
  std::filesystem::remove(at("runs/a/model.onnx"));
  EXPECT_EQ(state(), "interrupted");
}

TEST_F(Runs, AreComparedByWhatTheyWereAskedForAndWhatCameOfIt) {
  const std::vector<std::string> words = {"runs", "compare", "runs/a", "runs/more/b"};
  const Outcome o = run(words);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(
      o.out,
      AllOf(HasSubstr("--epochs    2      3\n"), HasSubstr("--lr        0.001  0.01\n"),
            HasSubstr("--nesterov  false  true\n"),
            HasSubstr("the same model, photos and labels\n"), HasSubstr("top-1 A  top-1 B\n"),
            HasSubstr("classes of B against A"), Not(HasSubstr("--batch"))));
  EXPECT_EQ(run(words).out, o.out);
  std::vector<std::string> more = words;
  more.insert(more.end(), {"runs/a", "--json", "--html", "c.html"});
  const Json json = parse_json(run(more).out);
  EXPECT_EQ(json.at("runs").size(), 3U);
  EXPECT_EQ(json.at("classes").at(1).at("changes").at(0).at("f1_change"), 0.0);
  EXPECT_THAT(real_fs().read(at("c.html")).or_throw(),
              AllOf(HasSubstr("<polyline"), HasSubstr("Classes of C against A")));
  EXPECT_EQ(run({"runs", "compare", "runs/a"}).code, 2);
}

TEST_F(Runs, OfOtherClassesAndOthersThatHaveNoneYetAreComparedToo) {
  std::filesystem::rename(at("photos/c0"), at("photos/other"));
  train("runs/c", {"-e", "1", "--head", "linear"});
  std::filesystem::remove(at("runs/more/b/confusion.csv"));
  const Outcome o = run({"runs", "compare", "runs/a", "runs/c", "runs/more/b"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("only in A: c0\nonly in B: other\n"), HasSubstr("photos and labels"),
                    HasSubstr("classes: C has no confusion.csv yet\n")));
}

TEST_F(Runs, HaveNamesNotesAndTagsThatDecideNothing) {
  train("runs/named",
        {"-e", "2", "--name", "Rosen", "--note", "one\ntwo", "--tag", "july", "--tag", "x"});
  const auto bytes = [&](const std::string& f) { return real_fs().read(at(f)).or_throw(); };
  EXPECT_EQ(bytes("runs/named/model.onnx"), bytes("runs/a/model.onnx"));
  EXPECT_EQ(bytes("runs/named/args.toml"), bytes("runs/a/args.toml"));
  EXPECT_THAT(listed({"--tag", "july", "--tag", "x"}), ElementsAre("runs/named"));
  EXPECT_THAT(listed({"--tag", "y"}), ::testing::IsEmpty());
  EXPECT_EQ(listed({"--sort", "name"}).back(), "runs/named");
  Outcome o = run({"runs", "tag", "runs/named", "+b", "-july", "-x", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(parse_json(o.out).at("tags"), Json({"b"}));
  ASSERT_EQ(run({"runs", "note", "runs/named", "three", "--name", "Tulpen"}).code, 0);
  EXPECT_THAT(run({"runs", "show", "runs/named"}).out,
              AllOf(HasSubstr("name          Tulpen\nnote          three\ntags          b\n")));
  // A run that is gone on with keeps them, and may be told more.
  o = run({"train", "photos", "-m", "m.onnx", "-o", "runs/named", "-e", "3", "--resume", "--tag",
           "longer"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(run({"runs", "show", "runs/named"}).out,
              AllOf(HasSubstr("note          three\ntags          b longer\n")));
  EXPECT_THAT(run({"runs", "ls"}).out, HasSubstr("b longer\n"));
}

TEST_F(Runs, RefuseNotesThatAreNone) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "photos", "-m", "m.onnx", "-o", "runs/n", "--tag", "a b"},
        {"train", "photos", "-m", "m.onnx", "-o", "runs/n", "--name", std::string(101, 'x')},
        {"runs", "note", "runs/a"},
        {"runs", "note", "runs/a", "a\x1b[2J"},
        {"runs", "tag", "runs/a"},
        {"runs", "tag", "runs/a", "july"}}) {
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, Not(HasSubstr("\x1b")));
  }
  EXPECT_FALSE(std::filesystem::exists(at("runs/n")));
  EXPECT_THAT(run({"runs", "tag", "runs/a", "-july"}).err, HasSubstr("there is no tag 'july'"));
  EXPECT_THAT(run({"runs", "note", "photos", "x"}).err, HasSubstr("photos: is no run"));
}

}  // namespace
}  // namespace ndtrain
