// ndtrain profile --convergence as a user meets it.
#include <gmock/gmock.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "framework/core/json.h"
#include "framework/sparse/control/loss_penalty.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

class ProfileConvergence : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "2", "-o", "m.onnx"}).code, 0);
  }

  // Of 2 of 8 epochs.
  static Words words(const Words& more) {
    Words all = {"profile", "photos", "-m", "m.onnx", "--convergence", "-o",   "c.txt", "-b", "8",
                 "-e",      "8",      "-j", "1",      "--cache",       "cache"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string text() const { return real_fs().read(at("c.txt")).or_throw(); }
  ConvergenceProfile profile() const { return parse_convergence_profile(text(), "c.txt"); }
};

TEST_F(ProfileConvergence, TrainsWithBatchesAndDropsAndWritesWhatTheyCost) {
  const Outcome o = run(words({"--points", "8", "--json"}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json said = try_parse_json(o.out);
  EXPECT_EQ(said.at("points"), 8);
  EXPECT_EQ(said.at("epochs"), 2);
  EXPECT_GT(said.at("reference_loss").get<double>(), 0);
  EXPECT_THAT(o.err, AllOf(HasSubstr("reference: 8 rows, drop 0, 2 epochs by 2 ranks"),
                           HasSubstr("point 1/8: 2 rows, drop 0: loss "), HasSubstr("point 8/8")));
  EXPECT_TRUE(real_fs().exists(at("cache")));
  const ConvergenceProfile p = profile();
  EXPECT_EQ(p.model, "m.onnx");
  EXPECT_EQ(p.over, ConvergenceProfile::Over::kDrop);
  EXPECT_EQ(p.reference_batch, 8);
  EXPECT_EQ(p.reference_drop, 0);
  EXPECT_EQ(p.largest_batch, 32);
  ASSERT_EQ(p.points.size(), 8u);
  EXPECT_EQ(p.points[0].batch, 2.0 / 32);
  EXPECT_EQ(p.points[0].second, 0);
  for (const ConvergenceProfile::Point& point : p.points) {
    EXPECT_EQ(std::fmod(point.batch * 32, 2), 0) << "a row for each rank";
    EXPECT_TRUE(std::isfinite(point.penalty));
  }
  EXPECT_TRUE(std::isfinite(LossPenalty(p).at(16, 0.9))) << "what reads it goes on from here";

  ASSERT_EQ(run({"plan", "train", "--link", "1M", "-m", "m.onnx", "-b", "8", "--convergence",
                 "c.txt", "--sync", "ddp,sparse:0:0.99"})
                .code,
            0);
}

TEST_F(ProfileConvergence, TheReferenceCostsNothing) {
  const Outcome o = run(words({"--points", "1", "-b", "2", "--largest-batch", "8"}));
  ASSERT_EQ(o.code, 0) << o.err;
  ASSERT_EQ(profile().points.size(), 1u);
  EXPECT_EQ(profile().points[0].batch, 0.25);
  EXPECT_EQ(profile().points[0].penalty, 0) << "the first point is the same training";
  EXPECT_EQ(profile().largest_batch, 8);
}

TEST_F(ProfileConvergence, WhatIsThereIsGoneOnWithToTheSameFile) {
  ASSERT_EQ(run(words({"--points", "4"})).code, 0);
  const std::string whole = text();
  std::filesystem::remove(at("c.txt"));
  ASSERT_EQ(run(words({"--points", "2"})).code, 0);
  const Outcome on = run(words({"--points", "4"}));
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_THAT(on.err,
              AllOf(HasSubstr("going on behind 2 points of c.txt"), Not(HasSubstr("reference: ")),
                    Not(HasSubstr("point 2/4")), HasSubstr("point 3/4")));
  EXPECT_EQ(text(), whole);
  for (const Words& other : {Words{"--lr", "0.01"}, Words{"--largest-batch", "16"},
                             Words{"--reference-drop", "0.5"}, Words{"--staleness", "1"}}) {
    const Outcome o = run(words(other));
    EXPECT_EQ(o.code, 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr("c.txt is of other trainings"));
  }
  EXPECT_EQ(text(), whole);
}

TEST_F(ProfileConvergence, StoppedInTheMiddleItKeepsItsPoints) {
  const pid_t child = start_as("profile", words({"--points", "100"}));
  while (!real_fs().exists(at("c.txt"))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(child, SIGINT);
  const Outcome o = end_of(child, "profile");
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_THAT(o.err, HasSubstr("the same command goes on"));
  const size_t kept = profile().points.size();
  EXPECT_GE(kept, 1u);
  const Outcome on = run(words({"--points", std::to_string(kept + 1)}));
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(profile().points.size(), kept + 1);
}

TEST_F(ProfileConvergence, FlagsSayHowItTrains) {
  std::vector<double> penalties;
  for (const Words& way : {Words{}, Words{"--opt", "sgd", "--lr", "0.01"}, Words{"--part", "0.5"},
                           Words{"--ranks", "3", "-b", "9"}, Words{"--reference-drop", "0.9"},
                           Words{"--staleness", "1", "--reference-drop", "0.9"},
                           Words{"--freeze", "auto"}, Words{"--fast-decode", "--seed", "7"}}) {
    std::filesystem::remove(at("c.txt"));
    Words all = words(way);
    all.insert(all.end(), {"--points", "1", "--most-drop", "0.9"});
    const Outcome o = run(all);
    ASSERT_EQ(o.code, 0) << o.err;
    penalties.push_back(profile().points[0].penalty);
    for (size_t i = 0; i + 1 < penalties.size(); ++i) EXPECT_NE(penalties[i], penalties.back());
  }
}

TEST_F(ProfileConvergence, SaysWhatIsWrongWithWhatItWasGiven) {
  const auto refused = [&](const Words& more, const std::string& what) {
    const Outcome o = run(words(more));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  refused({"--points", "0"}, "--points 0");
  refused({"--points", "129"}, "--points 129");
  refused({"--part", "0"}, "--part 0");
  refused({"--part", "1.5"}, "--part 1.5: above 0 and at most 1");
  refused({"--ranks", "1"}, "--ranks 1");
  refused({"--largest-batch", "4"}, "--largest-batch 4");
  refused({"--most-drop", "1"}, "--most-drop 1: 0 to below 1");
  refused({"--most-drop", "0"}, "--most-drop 0");
  refused({"--reference-drop", "1"}, "--reference-drop 1: 0 to below 1");
  refused({"--staleness", "17"}, "--staleness 17");
  refused({"--lr", "0"}, "--lr 0");
  refused({"-b", "1"}, "--batch 1 but 2 ranks");
  refused({"--opt", "fast"}, "fast");
  refused({"--steps", "4"}, "--steps with --convergence");
  const Outcome without = run({"profile", "-m", "m.onnx", "-o", "p.json", "--points", "4"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--points is of --convergence: add that"));
  const Outcome data = run({"profile", "-m", "m.onnx", "-o", "c.txt", "--convergence"});
  EXPECT_EQ(data.code, 2);
  const Outcome nowhere =
      run({"profile", "nowhere", "-m", "m.onnx", "-o", "c.txt", "--convergence"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere"));
  EXPECT_FALSE(real_fs().exists(at("c.txt")));
}

}  // namespace
}  // namespace ndtrain
