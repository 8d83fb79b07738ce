// Photos and features that are mixed, and rates of layers, whoever trains.
#include <gmock/gmock.h>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

class AugmentProgram : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(
        run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2", "--img-size", "32"})
            .code,
        0);
  }

  Outcome train(const std::string& out, const Words& flags, const Words& more = {}) const {
    Words words = {"train", "photos", "-m", "m.onnx", "-o", out, "-b", "8", "--deterministic"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string model(const std::string& out) const {
    return real_fs().read(at(out + "/model.onnx")).or_throw();
  }

  const std::vector<Words> kinds_ = {
      {"--augment", "mixup=0.4,cutmix=1", "--freeze", "none"},
      {"--augment", "mixup=0.4"},  // of features
      {"--augment", "crop,flip,mixup=0.4", "--views", "2"},
      {"--augment", "mixup=1", "--sampling", "balanced", "--class-weights", "c0=3"},
      {"--augment", "mixup=1", "--label-smoothing", "0.1"},
      {"--layer-decay", "0.5", "--freeze", "none", "--opt", "adamw", "--weight-decay", "0.1"},
      {"--lr-of", "*.bias=0.5,fc.*=2", "--layer-decay", "0.5", "--freeze", "none"}};
};

TEST_F(AugmentProgram, GivesTheSameBytesByAnyRanksAndWhenItIsResumed) {
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const std::string name = "run" + std::to_string(k) + "-";
    const auto trained = [&](const std::string& out, Words more) {
      more.insert(more.end(), {"--shards", "4"});
      const Outcome o = train(out, kinds_[k], more);
      EXPECT_EQ(o.code, 0) << o.err;
      return o.code == 0 ? model(out) : "";
    };
    const std::string want = trained(name + "one", {"-e", "2"});
    EXPECT_EQ(trained(name + "two", {"-e", "2", "--ranks", "2"}), want) << kinds_[k][1];
    EXPECT_EQ(trained(name + "four", {"-e", "2", "--ranks", "4", "--shard-optimizer"}), want);
    (void)trained(name + "again", {"-e", "1"});
    EXPECT_EQ(trained(name + "again", {"-e", "2", "--resume"}), want) << kinds_[k][1];
    Words without(kinds_[k].begin() + 2, kinds_[k].end());
    if (!without.empty() && without[0] == "--views") without.clear();
    ASSERT_EQ(train(name + "plain", without, {"-e", "2", "--shards", "4"}).code, 0);
    EXPECT_NE(model(name + "plain"), want) << kinds_[k][1] << " changes something";
  }
}

TEST_F(AugmentProgram, GivesTheSameBytesByStages) {
  for (const Words& kind : {kinds_[0], kinds_[2], kinds_[5], kinds_[6]}) {
    const std::string name = "by" + kind[1];
    const Outcome one = train(name, kind, {"-e", "2", "--device", "cpu", "--accumulate", "2"});
    ASSERT_EQ(one.code, 0) << one.err;
    const Outcome two = train(name + "-stages", kind,
                              {"-e", "2", "--device", "cpu", "--ranks", "2", "--parallel",
                               "pipeline", "--micro-batches", "2"});
    ASSERT_EQ(two.code, 0) << two.err;
    EXPECT_EQ(model(name + "-stages"), model(name)) << name;
  }
}

TEST_F(AugmentProgram, IsRefusedWhereItMakesNoSense) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--augment", "mixup"}, "say the alpha"},
      {{"--augment", "mixup=-1"}, "above 0"},
      {{"--layer-decay", "0"}, "layer decay 0: above 0, to 1"},
      {{"--layer-decay", "1.01"}, "layer decay 1.01"},
      {{"--layer-decay", "0.5", "--ranks", "2", "--sync", "sparse"},
       "--layer-decay 0.5 with --sync sparse"},
      {{"--lr-of", "fc.weight"}, "--lr-of fc.weight: a parameter's name"},
      {{"--lr-of", "fc.*=-1"}, "learning rate of 'fc.*' times -1"},
      {{"--lr-of", "fc.*=2", "--ranks", "2", "--sync", "sparse"}, "--lr-of with --sync sparse"},
      {{"--lr-of", "fc.*=2", "--ranks", "2", "--parallel", "pipeline", "--pipeline-schedule",
        "async", "--staleness", "predict", "--opt", "sgd", "--freeze", "none"},
       "predict goes on at one rate for all parameters, and that of 'fc.*'"},
      {{"--layer-decay", "0.5", "--ranks", "2", "--parallel", "pipeline", "--pipeline-schedule",
        "async", "--staleness", "predict", "--opt", "sgd", "--freeze", "none"},
       "predict goes on at one rate"}};
  for (const auto& [flags, message] : cases) {
    const Outcome o = train("run", flags);
    EXPECT_EQ(o.code, 2) << flags[1];
    EXPECT_THAT(o.err, HasSubstr(message));
  }
  const Outcome unknown = train("run", {"--lr-of", "fc.wieght=2"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("learning rate of 'fc.wieght': no parameter that is"),
                                 HasSubstr("there are fc.weight")));
  const Outcome o = train("run", {"--augment", "mixup=1,cutmix=1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("--augment mixup=1,cutmix=1: "),
                           HasSubstr("mix features with --augment mixup=0.2")));
  for (const auto& [flags, message] : std::vector<std::pair<Words, std::string>>{
           {{"--augment", "crop", "--freeze", "none", "--views", "2"},
            "--views 2: nothing is frozen"},
           {{"--augment", "mixup=1", "--views", "2"}, "would be alike"},
           {{"--augment", "crop,cutout", "--views", "2"}, "--augment crop,cutout: "}}) {
    const Outcome view = train("run", flags);
    EXPECT_EQ(view.code, 1) << flags[1];
    EXPECT_THAT(view.err, HasSubstr(message));
  }
  for (const char* views : {"0", "33"}) {
    const Outcome count = train("run", {"--augment", "crop", "--views", views});
    EXPECT_EQ(count.code, 2);
    EXPECT_THAT(count.err, HasSubstr(std::string("--views ") + views));
  }
}

}  // namespace
}  // namespace ndtrain
