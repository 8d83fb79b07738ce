// Which photos `train` takes, how often, and how much each counts.
#include <gmock/gmock.h>

#include <filesystem>

#include "ndp/labels/label_db.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

class SamplingProgram : public testing_cli::ProgramTest {
 protected:
  // Every fourth photo was labelled at 200, the others at 100, by a person, as their folders say.
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
    const int64_t collection = db->collection(kDefaultCollection).or_throw();
    LabelBatch said{.task = db->task(kDefaultTask).or_throw(), .source = LabelSource::kHuman};
    const Words names = {"c0", "c1"};
    const std::vector<int64_t> classes = db->class_ids(said.task, names).or_throw();
    for (size_t c = 0; c < names.size(); ++c) {
      for (const auto& file : std::filesystem::directory_iterator(at("photos/" + names[c]))) {
        const std::string path = names[c] + "/" + file.path().filename().string();
        const std::vector<PhotoPlace> place = {
            {path, sha256(real_fs().read(at("photos/" + path)).or_throw())}};
        const int64_t photo = db->add_photos(collection, place).or_throw()[0];
        said.labels.push_back({.photo = photo,
                               .class_id = classes[c],
                               .time = said.labels.size() % 4 == 3 ? 200 : 100});
      }
    }
    db->put_labels(said).or_throw();
  }

  Outcome train(const std::string& out, Words more) const {
    more.insert(more.begin(), {"train", "photos", "-m", "m.onnx", "-o", out, "--db",
                               "sqlite:labels.db", "-b", "6", "--deterministic"});
    return run(more);
  }
  std::string bytes(const std::string& name) const { return real_fs().read(at(name)).or_throw(); }
};

TEST_F(SamplingProgram, TrainsOnWhatIsChosenAndSaysHowMuchThatIs) {
  Outcome o = train("all", {"-e", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, ::testing::Not(HasSubstr("chosen to train on")));
  for (const Words& flags : {Words{"--since", "200"}, Words{"--sample", "5", "--label", "c0,c1"}}) {
    Words more = flags;
    more.insert(more.end(), {"-e", "1"});
    o = train(flags[0].substr(2), more);
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err, HasSubstr(" photos are chosen to train on"));
    EXPECT_NE(bytes(flags[0].substr(2) + "/model.onnx"), bytes("all/model.onnx"));
  }
}

TEST_F(SamplingProgram, GivesTheSameBytesByAnyRanksAndWhenItIsResumed) {
  for (const Words& flags :
       {Words{"--since", "200", "--truth-share", "0.5"}, Words{"--sampling", "balanced"},
        Words{"--class-weights", "balanced"}, Words{"--class-weights", "c0=3,c1=0.5"},
        Words{"--since", "200"}, Words{"--label", "c1"}, Words{"--sample", "9"}}) {
    const std::string name = flags[0].substr(2) + flags.back();
    const auto with = [&](Words more) {
      more.insert(more.end(), flags.begin(), flags.end());
      return more;
    };
    ASSERT_EQ(train(name + "1", with({"-e", "2", "--shards", "4"})).code, 0);
    for (const std::string ranks : {"2", "4"}) {
      const Outcome o = train(name + ranks, with({"-e", "2", "--shards", "4", "--ranks", ranks}));
      ASSERT_EQ(o.code, 0) << o.err;
      EXPECT_EQ(bytes(name + ranks + "/model.onnx"), bytes(name + "1/model.onnx")) << name;
    }
    ASSERT_EQ(train(name, with({"-e", "1", "--shards", "4"})).code, 0);
    ASSERT_EQ(train(name, with({"-e", "2", "--shards", "4", "--resume"})).code, 0);
    EXPECT_EQ(bytes(name + "/model.onnx"), bytes(name + "1/model.onnx")) << name << ", resumed";
  }
}

TEST_F(SamplingProgram, IsRefusedWhereItMakesNoSense) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--truth-share", "0.5"}, "--since"},
      {{"--since", "200", "--truth-share", "1"}, "above 0 and below 1"},
      {{"--sampling", "often"}, "--sampling often: there is balanced"},
      {{"--sampling", "balanced", "--class-weights", "balanced"}, "give one"},
      {{"--sample", "0"}, "--sample 0"}};
  for (const auto& [flags, message] : cases) {
    const Outcome o = train("run", flags);
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr(message));
  }
  EXPECT_THAT(train("run", {"--since", "201"}).err, HasSubstr("no photo to train on is left"));
  EXPECT_THAT(train("run2", {"--label", "c2"}).err, HasSubstr("no class 'c2'"));
  EXPECT_THAT(train("run3", {"--class-weights", "c0"}).err, HasSubstr("CLASS=WEIGHT"));
  const Outcome o = run({"train", "photos", "-m", "m.onnx", "-o", "run4", "--since", "1"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("say which with --db"));
}

}  // namespace
}  // namespace ndtrain
