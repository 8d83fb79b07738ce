// A fine-tuning by several Tuners gives what one gives, whoever comes, stays away or is lost.
#include <gmock/gmock.h>

#include <set>

#include "ndp/labels/label_db.h"
#include "tests/roles/tuner_group_fixture.h"
#include "tests/wire/authority.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunningMember;
using testing::RunningStore;
using testing::TunerGroup;

TEST_F(TunerGroup, TheWeightsAreTheSameBytesForOneTwoAndThreeTuners) {
  const std::string expected = by_one_tuner();
  join("a");
  auto result = train(spec(2), "two");
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["tuners"], 2);
  EXPECT_EQ(result["shards"], kShards);
  EXPECT_GT(result["member_row_bytes"], 0);
  EXPECT_THAT(log_, HasSubstr("2 of 2 Tuners train: this one, a"));
  join("b");
  result = train(spec(3), "three");
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["tuners"], 3);
  EXPECT_FALSE(result.contains("lost_tuners"));
}

TEST_F(TunerGroup, RowsThatAMemberHasDoNotTravelAgain) {
  join("a");
  EXPECT_GT(train(spec(2), "first")["member_row_bytes"], 0);
  EXPECT_EQ(train(spec(2), "again")["member_row_bytes"], 0);
}

// No run begins while this thread is held up.
TEST_F(TunerGroup, WhereAMemberLeavesTheOthersTrainTheSameWeightsAndSayIt) {
  const std::string expected = by_one_tuner();
  join("a");
  join("b");
  const auto result = train(spec(3), "left", [&](const std::string& line) {
    if (line.starts_with("3 of 3 Tuners")) members_.erase("a");
  });
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"}));
  EXPECT_THAT(log_, HasSubstr("a is lost; the others have taken over its shards"));
}

TEST_F(TunerGroup, WheneverAMemberLeavesTheWeightsAreTheSame) {
  const std::string expected = by_one_tuner();
  for (const char* when : {"run 1/2", "run 2/2"}) {
    join("a");
    join("b");
    const auto result = train(spec(3), std::string("at") + when[4], [&](const std::string& line) {
      if (line.starts_with(when)) members_.erase("a");
    });
    EXPECT_EQ(result["model_id"], expected) << log_;
    members_.clear();
  }
}

TEST_F(TunerGroup, WhereAllMembersLeaveTheTunerGoesOnAlone) {
  const std::string expected = by_one_tuner();
  join("a");
  join("b");
  const auto result = train(spec(3), "alone", [&](const std::string& line) {
    if (line.starts_with("3 of 3 Tuners")) members_.clear();
  });
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["lost_tuners"].size(), 2);
}

TEST_F(TunerGroup, WhoComesLateOrBackTakesPartToTheSameWeights) {
  JobSpec one = spec(1);
  one.trainer.epochs = kLong;
  const std::string expected = train(one, "one")["model_id"];
  EXPECT_EQ(train_while_some_come_and_go(spec(3), "three")["model_id"], expected) << log_;
}

TEST_F(TunerGroup, WithFewerMembersThanAskedForTheWeightsAreTheSame) {
  const std::string expected = by_one_tuner();
  JobSpec s = spec(3);
  s.store_timeout = 1;
  EXPECT_EQ(train(s, "nobody")["model_id"], expected) << log_;
  EXPECT_THAT(log_, HasSubstr("waits for 2 more of 3 Tuners"));
  EXPECT_THAT(log_, HasSubstr("this one trains alone, to the same model"));
  join("a");
  s.store_timeout = 5;
  EXPECT_EQ(train(s, "one-came")["model_id"], expected) << log_;
  EXPECT_THAT(log_, HasSubstr("2 of 3 Tuners train"));
}

TEST_F(TunerGroup, AJobThatIsInterruptedGoesOnWithOtherMembersToTheSameWeights) {
  const std::string expected = train(longer(spec(1)), "one")["model_id"];
  JobSpec s = longer(spec(3));
  s.store_timeout = 5;
  join("a");
  const auto result = in_two_lives(s, "state", [&] {
    join("b");
    members_.erase("a");
  });
  EXPECT_EQ(result["model_id"], expected) << log_;
}

TEST_F(TunerGroup, AScheduleThatMeasuresGivesTheSameWeights) {
  const std::string expected = by_one_tuner();
  join("a");
  for (const char* sync : {"auto", "dear"}) {
    JobSpec s = spec(2);
    s.sync = sync;
    EXPECT_EQ(train(s, sync)["model_id"], expected) << log_;
  }
}

// And is asked again three times, in case that has passed.
TEST_F(TunerGroup, AMemberThatCannotKeepItsRowsLeavesAndSaysWhy) {
  JobSpec one = spec(1), two = spec(2);
  one.trainer.epochs = two.trainer.epochs = kLong;
  const std::string expected = train(one, "one")["model_id"];
  MemberConfig small = member("small");
  small.disk = 1000;
  members_["small"] = std::make_unique<RunningMember>(small, devices_);
  const auto result = train(two, "small");
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"small"}));
  int asked = 0;
  for (size_t at = 0; (at = log_.find("small is here: all", at)) != std::string::npos; ++at) {
    ++asked;
  }
  EXPECT_EQ(asked, 3);
}

// Stages of a synchronous schedule, each on one Tuner, train what one Tuner does that computes a
// step in as many parts.
class StagedTuners : public TunerGroup {
 protected:
  static constexpr int kParts = 2;

  static JobSpec staged(int tuners, const std::string& how = "pipeline") {
    JobSpec s = spec(tuners);
    s.parallel = how;
    s.pipeline_schedule = "gpipe";
    s.micro_batches = kParts;
    return s;
  }

  // Of the same parts of a step.
  std::string by_one_tuner_in_parts(int64_t parts) {
    JobSpec s = spec(1);
    s.trainer.shards = 1;
    s.trainer.accumulate = parts;
    s.deterministic = true;
    return train(s, "parts" + std::to_string(parts))["model_id"];
  }
};

TEST_F(StagedTuners, TrainWhatOneDoesInAsManyParts) {
  join("a");
  join("b");
  for (const int tuners : {2, 3}) {
    const auto result = train(staged(tuners), "staged" + std::to_string(tuners));
    EXPECT_EQ(result["stages"], tuners) << log_;
    EXPECT_EQ(result["schedule"], "gpipe");
    EXPECT_EQ(result["parallel"], "pipeline");
    EXPECT_EQ(result["model_id"], by_one_tuner_in_parts(result["micro_batches"])) << log_;
  }
  EXPECT_FALSE(members_.at("a") == nullptr);
}

TEST_F(StagedTuners, WhoComesLateOrBackGetsStagesToo) {
  EXPECT_EQ(train_while_some_come_and_go(staged(3), "three")["stages"], 3) << log_;
}

TEST_F(StagedTuners, OnOldParametersTheyTrainToo) {
  join("a");
  JobSpec s = staged(2);
  s.pipeline_schedule = "async";
  const auto result = train(s, "async");
  EXPECT_EQ(result["schedule"], "async") << log_;
  EXPECT_EQ(result["epochs"], 4);
  EXPECT_GT(result["step_s"].get<double>(), 0);
  EXPECT_THAT(log_, HasSubstr("2 versions of its parameters"));
}

// Whatever is picked: it is said, and trains.
TEST_F(StagedTuners, WhatIsFastestIsPickedAndSaid) {
  join("a");
  for (const char* how : {"auto", "hybrid"}) {
    JobSpec s = staged(2, how);
    s.pipeline_schedule = "auto";
    const auto result = train(s, how);
    EXPECT_EQ(result["parallel"], how) << log_;
    EXPECT_THAT(log_, HasSubstr("one Tuner alone"));
    EXPECT_NE(result.contains("stages"), result.contains("shards")) << result;
  }
}

TEST_F(StagedTuners, WheneverAMemberLeavesThoseThatAreLeftTrainTheSame) {
  for (const std::string when : {"3 of 3 Tuners", "run 1/2"}) {
    join("a");
    join("b");
    const auto result =
        train(staged(3), "leaves" + when.substr(0, 1), [&](const std::string& line) {
          if (line.starts_with(when)) members_.erase("a");
        });
    // As many as were fastest at first; they stay.
    const auto parts = result["micro_batches"].get<int64_t>();
    EXPECT_THAT(log_, HasSubstr("3 ranks: gpipe, " + std::to_string(parts) + " micro-batches"));
    EXPECT_THAT(log_, HasSubstr("2 ranks: gpipe, " + std::to_string(parts) + " micro-batches"));
    EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"})) << log_;
    EXPECT_THAT(log_, HasSubstr("2 of 2 Tuners train: this one, b"));
    EXPECT_THAT(log_, HasSubstr("a is lost"));
    members_.clear();
    EXPECT_EQ(result["model_id"], by_one_tuner_in_parts(parts)) << log_;
  }
}

TEST_F(StagedTuners, TheLastOneGoesOnAlone) {
  join("a");
  const auto result = train(staged(2), "last", [&](const std::string& line) {
    if (line.starts_with("run 1/2")) members_.clear();
  });
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"}));
  EXPECT_THAT(log_, HasSubstr("this Tuner goes on alone"));
  EXPECT_EQ(result["model_id"], by_one_tuner_in_parts(result["micro_batches"])) << log_;
}

TEST_F(StagedTuners, WhatStagesCannotDoIsRefusedOrDoneByRowsAndSaid) {
  join("a");
  JobSpec s = staged(2, "auto");
  s.trainer.optimizer.clip_norm = 1;
  const auto result = train(s, "clipped");
  EXPECT_EQ(result["shards"], kShards);
  EXPECT_THAT(log_, HasSubstr("by rows: stages do not clip gradients"));
}

// One of another authority, and one that is a store's.
TEST_F(TunerGroup, ByMtlsTheWeightsAreTheSameAndOtherCertificatesAreRefused) {
  const std::string expected = by_one_tuner();
  const support::Authority ours, theirs;
  TunerConfig config = tuner("secured");
  config.listen = "127.0.0.1:0";
  config.security = ours.tuner();
  TunerDaemon daemon(config, devices_, real_fs(), system_clock());
  std::vector<PipeStoreConfig> stores = {store("s0", 0, 2), store("s1", 1, 2)};
  for (PipeStoreConfig& s : stores) {
    s.tuner = daemon.address();
    s.security = ours.store(s.name);
  }
  const auto join_with = [&](const std::string& name, const LinkSecurity& security) {
    MemberConfig c = member(name);
    c.tuner = daemon.address();
    c.security = security;
    members_[name] = std::make_unique<RunningMember>(c, devices_);
  };
  join_with("a", ours.member("a"));
  join_with("b", ours.member("b"));
  join_with("stranger", theirs.member("stranger"));
  join_with("shop", ours.store("shop"));
  JobSpec s = spec(5);
  s.store_timeout = 8;
  const auto result = train_by(daemon, s, stores);
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_THAT(log_, HasSubstr("3 of 5 Tuners train: this one, a, b"));
  EXPECT_FALSE(result.contains("lost_tuners"));
}

TEST_F(TunerGroup, TwoOfOneNameAreNotTaken) {
  join("a");
  JobSpec s = spec(3);
  s.store_timeout = 3;
  RunningMember twin(
      {.name = "a", .tuner = address(), .state = at("member-twin"), .version = "test"}, devices_);
  train(s, "twins");
  EXPECT_THAT(log_, HasSubstr("2 of 3 Tuners train"));
}

// What is drawn for a place, and what it is mixed with, is of its shard.
TEST_F(TunerGroup, DrawnWeighedAndMixedPhotosGiveTheSameWeightsByAnyNumberOfTuners) {
  std::vector<std::pair<const char*, std::function<void(JobSpec&)>>> all = {
      {"mixed", [](JobSpec& s) { s.augmentation.mixup = 0.4; }},
      {"balanced", [](JobSpec& s) { s.sampling.balanced = true; }},
      {"weighed",
       [](JobSpec& s) {
         s.sampling.class_weights = "c0=4";
         s.trainer.label_smoothing = 0.1;
       }},
      {"both", [](JobSpec& s) {
         s.augmentation = {.flip = true, .mixup = 1};
         s.views = 2;
         s.sampling.balanced = true;
       }}};
  std::set<std::string> models = {by_one_tuner()};
  for (const auto& [name, ask] : all) {
    members_.clear();
    JobSpec s = spec(1);
    ask(s);
    const std::string expected = train(s, name)["model_id"];
    EXPECT_TRUE(models.insert(expected).second) << name << " changes something";
    for (const char* member : {"a", "b"}) {
      join(member);
      ++s.tuners;
      const auto result = train(s, std::string(name) + member);
      EXPECT_EQ(result["model_id"], expected) << name << " " << s.tuners << "\n" << log_;
      EXPECT_EQ(result["tuners"], s.tuners);
    }
  }
}

// Every second photo is what its folder says by a person, too, and since not long ago.
TEST_F(TunerGroup, RecentTruthHasItsShareByAnyNumberOfTuners) {
  const auto say = [&](const std::string& state) {
    real_fs().make_directories(at(state)).or_throw();
    const auto db = open_label_db("sqlite:" + at(state + "/labels.db")).or_throw();
    const int64_t collection = db->collection(kDefaultCollection).or_throw();
    LabelBatch said{.task = db->task(kDefaultTask).or_throw(), .source = LabelSource::kHuman};
    const std::vector<std::string> names = {"c0", "c1", "c2"};
    const std::vector<int64_t> classes = db->class_ids(said.task, names).or_throw();
    for (int i = 0; i < kPhotos; i += 2) {
      const auto c = static_cast<size_t>(i % kClasses);
      const std::string path = names[c] + "/" + std::to_string(i) + ".jpg";
      const std::vector<PhotoPlace> place = {
          {path, sha256(real_fs().read(at("photos/" + path)).or_throw())}};
      said.labels.push_back({.photo = db->add_photos(collection, place).or_throw()[0],
                             .class_id = classes[c],
                             .time = 200});
    }
    db->put_labels(said).or_throw();
  };
  JobSpec s = spec(1);
  s.trainer.shards = 2;
  say("plain");
  const std::string plain = train(s, "plain")["model_id"];
  s.sampling.since = 100;
  s.sampling.truth_share = 0.9;
  say("one");
  const std::string expected = train(s, "one")["model_id"];
  EXPECT_NE(expected, plain);
  join("a");
  s.tuners = 2;
  say("two");
  EXPECT_EQ(train(s, "two")["model_id"], expected) << log_;
}

TEST_F(TunerGroup, WhereAMemberIsLostWhatIsDrawnAndMixedStays) {
  JobSpec s = spec(1);
  s.augmentation.mixup = 0.4;
  s.sampling.balanced = true;
  const std::string expected = train(s, "one")["model_id"];
  s.tuners = 3;
  join("a");
  join("b");
  const auto result = train(s, "left", [&](const std::string& line) {
    if (line.starts_with("run 1/2")) members_.erase("a");
  });
  EXPECT_EQ(result["model_id"], expected) << log_;
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"}));
}

}  // namespace
}  // namespace ndtrain::tuner
