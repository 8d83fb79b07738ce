#include "tuner/watch/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/publish.h"
#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::tuner {
namespace {

using Due = WatchDecision::Due;
using std::chrono::seconds;
using ::testing::HasSubstr;

using Counts = std::map<std::string, int64_t>;

// So many photos of each class, all with this score.
LabelWindow window(const Counts& counts, double score = 0.9) {
  LabelWindow w;
  for (const auto& [name, n] : counts) {
    w.add(name, n, score * static_cast<double>(n));
  }
  return w;
}

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() { clock_.advance(seconds(1000)); }
  // Version 1 in force, nothing new.
  static WatchObservation calm() {
    return {.in_force = 1,
            .later = window({{"a", 500}, {"b", 500}}),
            .earlier = window({{"a", 500}, {"b", 500}})};
  }
  Due due(const WatchObservation& observation) { return watch_.look(observation).due; }

  ManualClock clock_;
  Watch watch_{WatchRule{}, clock_};
};

TEST_F(WatchTest, NothingIsDueWhereNothingIsOrChanges) {
  EXPECT_EQ(due({}), Due::kNothing);
  EXPECT_THAT(watch_.decision().why, HasSubstr("no version is in force"));
  EXPECT_EQ(due({.in_force = 1}), Due::kNothing);
  EXPECT_EQ(due(calm()), Due::kNothing);
}

TEST_F(WatchTest, EnoughNewHumanLabelsAreAReasonToTrainAndOneLessIsNot) {
  WatchObservation s = calm();
  s.truths = 199;
  EXPECT_EQ(due(s), Due::kNothing);
  s.truths = 200;
  EXPECT_EQ(due(s), Due::kTraining);
  EXPECT_THAT(watch_.decision().why, HasSubstr("at least 200 photos"));
  s.busy = true;
  EXPECT_EQ(due(s), Due::kNothing) << "a job is in progress";
}

TEST_F(WatchTest, BeforeThereIsAVersionTheRulesModelIsWhatItStartsFrom) {
  EXPECT_EQ(due({.truths = 200}), Due::kNothing);
  Watch with_model(WatchRule{.model = "base.onnx"}, clock_);
  EXPECT_EQ(with_model.look({.truths = 199}).due, Due::kNothing);
  EXPECT_EQ(with_model.look({.truths = 200}).due, Due::kTraining);
}

TEST_F(WatchTest, TrainingsAreAsFarApartAsTheRuleSays) {
  WatchObservation s = calm();
  s.truths = 200;
  s.last_training = clock_.unix_seconds();
  EXPECT_EQ(due(s), Due::kNothing);
  EXPECT_THAT(watch_.decision().why, HasSubstr("too soon"));
  clock_.advance(seconds(3599));
  EXPECT_EQ(due(s), Due::kNothing);
  clock_.advance(seconds(1));
  EXPECT_EQ(due(s), Due::kTraining);
}

TEST_F(WatchTest, AFallOfTheMeanScoreIsDrift) {
  WatchObservation s = calm();
  s.later = window({{"a", 500}, {"b", 500}}, 0.81);
  EXPECT_EQ(due(s), Due::kNothing);
  s.later = window({{"a", 500}, {"b", 500}}, 0.79);
  EXPECT_EQ(due(s), Due::kTraining);
  EXPECT_THAT(watch_.decision().why, HasSubstr("from 0.900 to 0.790"));
  std::swap(s.later, s.earlier);
  EXPECT_EQ(due(s), Due::kNothing) << "it rose";
}

TEST_F(WatchTest, OtherSharesOfTheClassesAreDrift) {
  WatchObservation s = calm();
  s.later = window({{"a", 600}, {"b", 400}});
  EXPECT_EQ(due(s), Due::kNothing);
  s.later = window({{"a", 900}, {"b", 100}});
  EXPECT_EQ(due(s), Due::kTraining);
  EXPECT_THAT(watch_.decision().why, HasSubstr("population stability index 0.87"));
}

TEST_F(WatchTest, AClassThatAppearsOrVanishesIsDrift) {
  WatchObservation s = calm();
  s.later = window({{"a", 400}, {"b", 400}, {"new", 200}});
  EXPECT_EQ(due(s), Due::kTraining);
  std::swap(s.later, s.earlier);
  EXPECT_EQ(due(s), Due::kTraining);
  s.earlier = s.later;
  ++s.later.photos;  // a single photo of it is nothing
  ++s.later.classes["newer"];
  EXPECT_EQ(due(s), Due::kNothing);
}

TEST_F(WatchTest, WindowsOfFewPhotosSayNothing) {
  WatchObservation s = calm();
  s.later = window({{"c", 99}}, 0.1);
  EXPECT_EQ(due(s), Due::kNothing);
  s.later = window({{"c", 100}}, 0.1);
  EXPECT_EQ(due(s), Due::kTraining);
  s.earlier = {};
  EXPECT_EQ(due(s), Due::kNothing) << "nothing to compare with";
  s.later = {};
  EXPECT_EQ(due(s), Due::kNothing);
}

TEST(PopulationStability, IndexIsTheSumOverTheClasses) {
  // (.5 - .9) ln(.5 / .9) + (.5 - .1) ln(.5 / .1)
  const LabelWindow p = window({{"a", 50'000}, {"b", 50'000}}),
                    q = window({{"a", 90'000}, {"b", 10'000}});
  EXPECT_NEAR(population_stability_index(p, q), 0.878890, 1e-3);
  EXPECT_DOUBLE_EQ(population_stability_index(p, q), population_stability_index(q, p));
  EXPECT_EQ(population_stability_index(p, p), 0);
  EXPECT_EQ(population_stability_index({}, {}), 0);
  EXPECT_TRUE(std::isfinite(population_stability_index(p, {})));
}

// 300 photos of 200 classes that do not change at all: the index is far above 0.25 each time.
TEST_F(WatchTest, ManyClassesInSmallWindowsAreNotDrift) {
  int above = 0, drifts = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed, "photos");
    WatchObservation s{.in_force = 1};
    for (uint64_t i = 0; i < 600; ++i) {
      (i % 2 == 0 ? s.later : s.earlier).add(std::to_string(rng.next_below(200)), 1, 0.9);
    }
    above += population_stability_index(s.later, s.earlier) > 0.25;
    drifts += due(s) != Due::kNothing;
  }
  EXPECT_GT(above, 90);
  EXPECT_LE(drifts, 3);
}

TEST_F(WatchTest, StaleLabelsAreMadeAnewOnceForEachVersion) {
  WatchObservation s = calm();
  s.stale = true;
  EXPECT_EQ(due(s), Due::kRelabel);
  EXPECT_EQ(due(s), Due::kRelabel) << "it has not been submitted yet";
  watch_.submitted(7);
  s.truths = 200;
  EXPECT_EQ(due(s), Due::kTraining) << "what a lost store has stays stale";
  watch_.submitted(8);
  s.truths = 0;
  s.in_force = 2;
  EXPECT_EQ(due(s), Due::kRelabel);
  EXPECT_THAT(watch_.json(), HasSubstr(R"("submitted":{"job":8,"kind":"finetune")"));
  Watch never(WatchRule{.relabel = false}, clock_);
  EXPECT_EQ(never.look(s).due, Due::kNothing);
}

TEST_F(WatchTest, StaleLabelsOfAStoreThatWasLeftOutAreMadeAnewWhenItIsBack) {
  WatchObservation s = calm();
  s.stale = true;
  EXPECT_EQ(due(s), Due::kRelabel);
  watch_.submitted(7);
  EXPECT_EQ(due(s), Due::kNothing);
  s.came_back = "attic";
  EXPECT_EQ(due(s), Due::kRelabel);
  EXPECT_THAT(watch_.decision().why, HasSubstr("store attic is here"));
  s.stale = false;
  EXPECT_EQ(due(s), Due::kNothing);
}

class WatchOfMissing : public WatchTest {
 protected:
  static WatchObservation seen(int64_t photos, int64_t labelled) {
    WatchObservation s = calm();
    s.photos = photos;
    s.labelled = labelled;
    return s;
  }
  static Due due(Watch& watch, const WatchObservation& s) { return watch.look(s).due; }
};

TEST_F(WatchOfMissing, PhotosWithoutALabelGetOneWhenTheyAreAsManyAsTheRuleSays) {
  Watch watch(WatchRule{.missing = 50}, clock_);
  EXPECT_EQ(due(watch, seen(1000, 951)), Due::kNothing);
  EXPECT_EQ(due(watch, seen(1000, 950)), Due::kLabelMissing);
  EXPECT_EQ(watch.decision().why, "50 of 1000 photos have no label");
  WatchObservation s = seen(1000, 0);
  s.stale = true;
  EXPECT_EQ(due(watch, s), Due::kRelabel) << "which leaves them missing; they are next";
  s = seen(1000, 0);
  s.busy = true;
  EXPECT_EQ(due(watch, s), Due::kNothing);
  s = seen(1000, 0);
  s.in_force = 0;
  EXPECT_EQ(due(watch, s), Due::kNothing) << "there is nothing to label them by";
  EXPECT_EQ(WatchTest::due(seen(1000, 0)), Due::kNothing) << "unless the rule says otherwise";
  EXPECT_THAT(watch_.json(), ::testing::Not(HasSubstr("labelled")));
}

TEST_F(WatchOfMissing, AShareOfThemIsEnoughToo) {
  Watch watch(WatchRule{.missing_share = 0.1}, clock_);
  EXPECT_EQ(due(watch, seen(1000, 901)), Due::kNothing);
  EXPECT_EQ(due(watch, seen(1000, 900)), Due::kLabelMissing);
  EXPECT_EQ(due(watch, seen(0, 0)), Due::kNothing);
  EXPECT_EQ(due(watch, seen(10, 12)), Due::kNothing) << "of photos that are gone";
}

// Copies that are counted twice, and what cannot be read.
TEST_F(WatchOfMissing, WhatARelabellingLeavesIsNotTriedAgainUntilThereIsMore) {
  Watch watch(WatchRule{.missing = 10}, clock_);
  EXPECT_EQ(due(watch, seen(100, 80)), Due::kLabelMissing);
  watch.submitted(7);
  WatchObservation s = seen(100, 85);
  s.busy = true;
  s.last_relabelling = clock_.unix_seconds();
  EXPECT_EQ(due(watch, s), Due::kNothing);
  s = seen(100, 88);
  s.last_relabelling = clock_.unix_seconds();
  EXPECT_EQ(due(watch, s), Due::kNothing);
  clock_.advance(seconds(3600));
  EXPECT_EQ(due(watch, s), Due::kNothing) << "12 were left";
  EXPECT_THAT(watch.json(), HasSubstr(R"("missing":0)"));
  s.photos = 109;
  EXPECT_EQ(due(watch, s), Due::kNothing);
  s.photos = 110;
  EXPECT_EQ(due(watch, s), Due::kLabelMissing);
  s.labelled = 109;
  EXPECT_EQ(due(watch, s), Due::kNothing) << "somebody has labelled them";
  s.photos = 120;
  EXPECT_EQ(due(watch, s), Due::kLabelMissing) << "of those that were left, one is";
}

TEST_F(WatchOfMissing, RelabellingsAreAsFarApartAsTheRuleSays) {
  Watch watch(WatchRule{.min_interval_s = 60, .missing = 10}, clock_);
  WatchObservation s = seen(100, 0);
  s.last_relabelling = clock_.unix_seconds();
  clock_.advance(seconds(59));
  EXPECT_EQ(due(watch, s), Due::kNothing);
  EXPECT_EQ(watch.decision().why,
            "100 of 100 photos have no label, but it is too soon after the last relabelling");
  clock_.advance(seconds(1));
  EXPECT_EQ(due(watch, s), Due::kLabelMissing);
}

TEST_F(WatchTest, LooksNowAndThenAlsoAfterAFailure) {
  EXPECT_TRUE(watch_.wants_to_look());
  (void)watch_.look(calm());
  EXPECT_FALSE(watch_.wants_to_look());
  clock_.advance(seconds(60));
  EXPECT_TRUE(watch_.wants_to_look());
  watch_.failed("the database is away");
  EXPECT_FALSE(watch_.wants_to_look());
  EXPECT_THAT(watch_.json(), HasSubstr("the database is away"));
  clock_.advance(seconds(60));
  EXPECT_TRUE(watch_.wants_to_look());
  (void)watch_.look(calm());
  EXPECT_THAT(watch_.json(), HasSubstr(R"("failure":"")"));
}

TEST_F(WatchTest, WindowsLieSideBySideAndEndNow) {
  const WatchTimes t = watch_.times();
  EXPECT_EQ(t.now, clock_.unix_seconds());
  EXPECT_EQ(t.now - t.later, 86'400);
  EXPECT_EQ(t.later - t.earlier, 86'400);
}

std::string written(Fs& fs, const std::string& name, const std::string& text) {
  fs.make_directories("d").or_throw();
  publish(fs, "d/" + name, text).or_throw();
  return "d/" + name;
}

TEST(WatchRuleTest, TomlAndJsonSayTheSame) {
  MemoryFs fs;
  const auto rule = [&](const std::string& name, const std::string& text) {
    return load_watch_rule(fs, written(fs, name, text));
  };
  const WatchRule t = rule("r.toml",
                           "labels = 50\nscore_drop = 0.2\nevery_s = 5\n\n[job]\nhead = \"grow\"\n"
                           "epochs = 3\n");
  const WatchRule j = rule(
      "r.json",
      R"({"labels": 50, "score_drop": 0.2, "every_s": 5, "job": {"head": "grow", "epochs": 3}})");
  EXPECT_EQ(t.text(), j.text());
  EXPECT_EQ(t.labels, 50);
  EXPECT_EQ(t.job.head, "grow");
  EXPECT_EQ(t.job.trainer.epochs, 3);
  EXPECT_EQ(t.job.promote, Promote::kRule) << "unless it says otherwise";
  EXPECT_TRUE(t.job.stores.all()) << "unless it says otherwise";
  EXPECT_EQ(rule("s.toml", "[job]\nstores = [\"b\", \"a\"]\n").job.stores.text(), "a,b");
  EXPECT_EQ(rule("e.toml", "").text(), parse_watch_rule("{}").text());
  EXPECT_EQ(parse_watch_rule(R"({"job": {"promote": true}})").job.promote, Promote::kAlways);
}

TEST(WatchRuleTest, WhatIsWrongIsNamed) {
  for (const auto& [text, why] :
       std::map<std::string, std::string>{{"labels = 0", "labels 0"},
                                          {"labels = \"many\"", "labels"},
                                          {"labels = 1.5", "labels"},
                                          {"lables = 3", "unknown key 'lables'"},
                                          {"every_s = 0", "every_s"},
                                          {"psi = -1.0", "psi"},
                                          {"missing = -1", "missing -1"},
                                          {"missing_share = 1.5", "missing_share 1.5"},
                                          {"job = 3", "is no table"},
                                          {"[job]\nepohcs = 3", "unknown key 'epohcs'"},
                                          {"[job]\nmodel = \"m.onnx\"", "job names a model"},
                                          {"[job]\nkind = \"relabel\"", "finetune"},
                                          {"labels = = 3", "r.toml: line 1"}}) {
    MemoryFs fs;
    try {
      (void)load_watch_rule(fs, written(fs, "r.toml", text));
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::AllOf(HasSubstr(why), HasSubstr("r.toml"))) << text;
    }
  }
  MemoryFs fs;
  EXPECT_THROW((void)load_watch_rule(fs, "absent.toml"), Error);
  EXPECT_THROW((void)load_watch_rule(fs, written(fs, "r.yaml", "")), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
