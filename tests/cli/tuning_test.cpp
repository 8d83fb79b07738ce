// Algorithms by measurement, as a user meets them: ndtrain tune, and --tuning.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "framework/runtime/backend.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/changed_tuning.h"
#include "tests/support/winograd.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using testing_cli::Outcome;
using testing_cli::ProgramTest;

class TuningTest : public ProgramTest {
 protected:
  void SetUp() override { build("m.onnx", "32"); }

  void build(const std::string& file, const std::string& side) const {
    ASSERT_EQ(
        run({"model", "build", "resnet18", "--classes", "2", "--img-size", side, "-o", file}).code,
        0);
  }
  Outcome forward(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"bench",  "forward", "-m",        "m.onnx",
                                      "--json", "-q",      "--seconds", "0.001"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

class TunedOnednn : public TuningTest {
 protected:
  void SetUp() override {
    const std::vector<std::string> there = Backend::available();
    if (std::ranges::find(there, "onednn") == there.end()) GTEST_SKIP() << "no onednn plugin";
    if (!support::has_winograd(Device(Backend::find("onednn")).numerics())) {
      GTEST_SKIP() << "without Winograd there is nothing to choose";
    }
    TuningTest::SetUp();
  }
  nlohmann::json tune(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"tune", "--tuning", "t.txt", "--device", "onednn", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  std::string numerics(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--device", "onednn"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = forward(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out).at("numerics");
  }
};

TEST_F(TunedOnednn, WhatIsMeasuredOnceIsKeptAndNotMeasuredAgain) {
  const nlohmann::json first = tune({"-m", "m.onnx"});
  EXPECT_GT(first.at("measured"), 0);
  EXPECT_EQ(first.at("measured"), first.at("layers").size());
  for (const nlohmann::json& layer : first.at("layers")) {
    EXPECT_GT(layer.at("rule_ms"), 0) << layer;
    EXPECT_GT(layer.at("chosen_ms"), 0) << layer;
  }
  const nlohmann::json second = tune({"-m", "m.onnx"});
  EXPECT_EQ(second.at("measured"), 0);
  EXPECT_EQ(second.at("layers").size(), first.at("layers").size());
  const Outcome o = run({"tune", "-m", "m.onnx", "--tuning", "t.txt", "--device", "onednn", "-q"});
  EXPECT_THAT(o.out, AllOf(HasSubstr("conv3x3 64>64 "), HasSubstr("0 measured now"),
                           HasSubstr("to use it: --tuning t.txt")));
  EXPECT_EQ(o.err, "");
}

TEST_F(TunedOnednn, TheLayersOfTrainingAreMeasuredWhereThatIsAskedFor) {
  build("larger.onnx", "64");
  EXPECT_THAT(tune({"-m", "larger.onnx"}).dump(), Not(HasSubstr(" changing")));
  const nlohmann::json training = tune({"-m", "larger.onnx", "--freeze", "none", "-b", "2"});
  EXPECT_GT(training.at("measured"), 0);
  EXPECT_THAT(training.dump(), HasSubstr(" changing"));
}

TEST_F(TunedOnednn, ChoicesAgainstTheRuleAreInTheNumericsAndOthersAreNot) {
  tune({"-m", "m.onnx"});
  const std::string by_rule = numerics({});
  EXPECT_THAT(by_rule, Not(HasSubstr("tuned-")));
  const auto choose = [&](bool against) {
    support::change_tuning(at("t.txt"), [&](const std::string&, plugin::TunedChoice& c) {
      const bool direct = (c.rule == "direct") != against;
      c.choice = direct ? "direct" : "winograd";
    });
  };
  choose(false);
  EXPECT_EQ(numerics({"--tuning", "t.txt"}), by_rule);
  choose(true);
  EXPECT_THAT(numerics({"--tuning", "t.txt"}), HasSubstr(" tuned-"));
  EXPECT_THAT(run({"doctor", "--tuning", "t.txt"}).out, HasSubstr("of them against the rule"));
}

TEST_F(TunedOnednn, TwoThatTuneIntoOneFileLoseNothing) {
  build("other.onnx", "64");
  const pid_t children[] = {
      start({"tune", "-m", "m.onnx", "--tuning", "t.txt", "--device", "onednn"}),
      start({"tune", "-m", "other.onnx", "--tuning", "t.txt", "--device", "onednn"})};
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(tune({"-m", "m.onnx", "-m", "other.onnx"}).at("measured"), 0);
}

TEST_F(TunedOnednn, AFileThatIsNotThereOrNotSoundIsRefusedWithWhatToDo) {
  Outcome o = forward({"--device", "onednn", "--tuning", "none.txt"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("none.txt"), HasSubstr("No such file"),
                           HasSubstr("ndtrain tune -m MODEL --tuning none.txt")));
  tune({"-m", "m.onnx"});
  std::string text = real_fs().read(at("t.txt")).or_throw();
  text[text.size() / 2] ^= 1;
  publish(real_fs(), at("t.txt"), text).or_throw();
  o = forward({"--device", "onednn", "--tuning", "t.txt"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("t.txt was changed or cut"), HasSubstr("remove it")));
  EXPECT_EQ(run({"tune", "-m", "m.onnx", "--tuning", "m.onnx", "--device", "onednn"}).code, 1);
  EXPECT_EQ(run({"model", "inspect", "m.onnx"}).code, 0) << "the model was overwritten";
}

TEST_F(TunedOnednn, TheRolesThatUpStartsGetTheFile) {
  const Outcome o = run({"up", "site", "--stores", "1", "--port", "0", "--http", "127.0.0.1:0",
                         "--device", "onednn", "--tuning", "none.txt"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("ndtrain tune -m MODEL --tuning " + at("none.txt")));
  EXPECT_EQ(run({"down", "site"}).code, 0);
}

TEST_F(TunedOnednn, ItIsSaidWhereNoLayerHasAChoice) {
  const Outcome o = run({"tune", "-m", "m.onnx", "--device", "onednn", "--less-memory"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("no layer of these models has a choice of algorithm on onednn"));
}

TEST_F(TunedOnednn, AFileWithNothingForThisMachineIsWarnedOf) {
  plugin::add_to_tuning_file(at("t.txt"), {{"onednn Elsewhere 1 layer", {"a", "b"}}});
  const Outcome o = forward({"--device", "onednn", "--tuning", "t.txt"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, AllOf(HasSubstr("t.txt has nothing for onednn on "),
                           HasSubstr("ndtrain tune -m MODEL --tuning t.txt")));
}

TEST_F(TuningTest, ABackendWithoutChoicesSaysSo) {
  Outcome o = run({"tune", "-m", "m.onnx", "--device", "cpu"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("the cpu backend follows a fixed rule"));
  o = forward({"--device", "cpu", "--tuning", "t.txt"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("it does not use the tuning file t.txt"));
}

TEST_F(TuningTest, ItIsSaidThatADeterministicDeviceDoesNotUseIt) {
  draw_photos(1);
  const Outcome o = run({"predict", "m.onnx", "photos", "--deterministic", "--tuning", "t.txt"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("--deterministic follows a fixed rule: --tuning t.txt is not used"));
}

TEST_F(TuningTest, TuningWithoutAModelIsRefused) {
  const Outcome o = run({"tune"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--model is missing"));
}

}  // namespace
}  // namespace ndtrain
