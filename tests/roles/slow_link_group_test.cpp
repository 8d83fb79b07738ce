// Several Tuners over slow links: each method trains, the same again; who is lost takes along what
// it had not sent, and the others end up with one model.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/roles/tuner_group_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunningStore;
using testing::TunerGroup;

class SlowLinkGroup : public TunerGroup {
 protected:
  static JobSpec slow(int tuners, const std::string& sync) {
    JobSpec s = spec(tuners);
    s.sync = sync;
    s.slow_link.verify = 1;
    return s;
  }
  static JobSpec sparse(int tuners) {
    JobSpec s = slow(tuners, "sparse");
    s.slow_link.drop = 0.9;
    return s;
  }

  // A name, and a job of each way.
  static std::vector<std::pair<std::string, JobSpec>> ways(int tuners) {
    const auto sgd = [](JobSpec s) {
      s.trainer.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .momentum = 0.9};
      return s;
    };
    std::vector<std::pair<std::string, JobSpec>> all;
    JobSpec late = sparse(tuners);
    late.slow_link.staleness = 1;
    late.slow_link.drain_every = 2;
    late.slow_link.wire_dtype = "int8";
    all.emplace_back("late", late);
    JobSpec pieces = sgd(sparse(tuners));
    pieces.slow_link.compressor = "randomk";
    pieces.slow_link.pieces = true;
    pieces.slow_link.drop_of = {"fc.weight=0.5"};
    pieces.slow_link.sparse_momentum = "lazy";
    all.emplace_back("pieces", pieces);
    JobSpec deep = sgd(slow(tuners, "sparse"));
    deep.slow_link.compressor = "dgc";
    all.emplace_back("dgc", deep);
    JobSpec local = slow(tuners, "local");
    local.slow_link.inner_steps = 2;
    all.emplace_back("local", local);
    JobSpec diloco = slow(tuners, "diloco");
    diloco.slow_link.inner_steps = 2;
    diloco.slow_link.overlap = 1;
    diloco.slow_link.compressor = "topk";
    diloco.slow_link.drop = 0.5;
    all.emplace_back("diloco", diloco);
    JobSpec low_rank = slow(tuners, "powersgd");
    low_rank.slow_link.factor_rank = 1;
    low_rank.slow_link.wire_dtype = "bf16";
    all.emplace_back("powersgd", low_rank);
    return all;
  }

  std::vector<std::string> unsent_of(const std::string& member) const {
    const auto files = real_fs().list(at("member-" + member + "/unsent"));
    return files.ok() ? *files : std::vector<std::string>();
  }
};

TEST_F(SlowLinkGroup, EachMethodTrainsTheSameAgainAndSaysWhatItSends) {
  join("a");
  for (const auto& [name, s] : ways(2)) {
    SCOPED_TRACE(name);
    const auto result = train(s, name + "1");
    EXPECT_EQ(result["sync"], s.sync);
    EXPECT_EQ(result["tuners"], 2);
    EXPECT_EQ(result["epochs"], 4);
    EXPECT_GT(result["step_sent_bytes"], 0);
    EXPECT_LT(result["step_sent_bytes"], result["step_gradient_bytes"]);
    EXPECT_EQ(result["left_out_steps"], 0);
    EXPECT_FALSE(result.contains("lost_tuners"));
    EXPECT_THAT(log_, HasSubstr("another number of them trains another model"));
    EXPECT_THAT(log_, HasSubstr("another number of ranks gives another model"));
    EXPECT_THAT(log_, HasSubstr("of gradients were sent in a step"));
    EXPECT_EQ(train(s, name + "2")["model_id"], result["model_id"]) << log_;
    EXPECT_THAT(unsent_of("a"), ::testing::IsEmpty());
  }
}

TEST_F(SlowLinkGroup, OfWholeGradientsTheWeightsAreThoseOfOneTuner) {
  JobSpec one = spec(1), two = slow(2, "sparse");
  one.trainer.shards = two.trainer.shards = 2;
  two.slow_link.drop = 0;
  join("a");
  EXPECT_EQ(train(two, "two")["model_id"], train(one, "one")["model_id"]);
}

TEST_F(SlowLinkGroup, WhereAMemberIsLostTheOthersGoOnWithWhatTheyHaveNotSentAndSayIt) {
  const auto lost = [&](const std::string& name, const JobSpec& s, const std::string& when) {
    SCOPED_TRACE(name + ", " + when);
    join("a");
    join("b");
    const auto result = train(longer(s), name + when.substr(0, 1), [&](const std::string& line) {
      if (line.starts_with(when)) members_.erase("a");
    });
    EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"})) << log_;
    EXPECT_EQ(result["regrouped"], 1);
    EXPECT_EQ(result["epochs"], 2 * kLonger);
    EXPECT_THAT(log_, HasSubstr("lost: a, and what it had not sent of its gradients; this Tuner, b "
                                "go on from epoch "));
    EXPECT_THAT(log_, Not(HasSubstr("to the same model")));
    members_.clear();
  };
  for (const auto& [name, s] : ways(3)) lost(name, s, "epoch 5/");
  lost("before", sparse(3), "3 of 3 Tuners");
}

// Of two members at one place the first talks to the Tuner; the other does when it is lost.
TEST_F(SlowLinkGroup, MembersOfASiteExchangeAsOne) {
  const auto join_at = [&](const std::string& name, const std::string& site) {
    MemberConfig config = member(name);
    config.site = site;
    members_[name] = std::make_unique<testing::RunningMember>(config, devices_);
  };
  join_at("a", "oslo");
  join_at("b", "oslo");
  for (const auto& [name, s] : ways(3)) {
    SCOPED_TRACE(name);
    const auto result = train(s, name + "1");
    EXPECT_EQ(result["sites"], 2);
    EXPECT_EQ(result["tuners"], 3);
    EXPECT_THAT(log_, HasSubstr("3 ranks are at 2 sites"));
    EXPECT_EQ(train(s, name + "2")["model_id"], result["model_id"]) << log_;
  }
  const auto result = train(longer(sparse(3)), "lost", [&](const std::string& line) {
    if (line.starts_with("epoch 5/")) members_.erase("a");
  });
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"})) << log_;
  EXPECT_EQ(result["sites"], 2);
  EXPECT_EQ(result["epochs"], 2 * kLonger);

  TunerConfig config = tuner("near");
  config.site = "oslo";
  TunerDaemon near(config, devices_, real_fs(), system_clock());
  const auto by_one_site = train_by(near, sparse(2), {store("near0", 0, 2), store("near1", 1, 2)});
  EXPECT_EQ(by_one_site["sites"], 1);
  EXPECT_EQ(by_one_site["tuners"], 2);
}

// Behind routers that let nobody in.
TEST_F(SlowLinkGroup, MembersThatNobodyCanDialTalkByTheTuner) {
  for (const char* name : {"a", "b"}) {
    join(name);
  }
  const auto direct = train(sparse(3), "direct");
  EXPECT_FALSE(direct.contains("relayed_bytes"));
  members_.clear();
  for (const char* name : {"a", "b"}) {
    MemberConfig config = member(name);
    config.relay = true;
    members_[name] = std::make_unique<testing::RunningMember>(config, devices_);
  }
  const auto relayed = train(sparse(3), "relayed");
  EXPECT_EQ(relayed["model_id"], direct["model_id"]) << log_;
  EXPECT_GT(relayed["relayed_bytes"], 0);
  const auto result = train(longer(sparse(3)), "lost", [&](const std::string& line) {
    if (line.starts_with("epoch 5/")) members_.erase("a");
  });
  EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"})) << log_;
}

TEST_F(SlowLinkGroup, TheTunerGoesOnAloneAndWhoComesBackTakesPartInTheNextJob) {
  join("a");
  join("b");
  const auto result = train(longer(sparse(3)), "alone", [&](const std::string& line) {
    if (line.starts_with("epoch 5/")) members_.clear();
  });
  EXPECT_EQ(result["lost_tuners"].size(), 2U) << log_;
  EXPECT_THAT(log_, HasSubstr("; this Tuner goes on from epoch "));
  join("a");
  EXPECT_EQ(train(sparse(2), "next")["tuners"], 2);
}

TEST_F(SlowLinkGroup, WhoComesLateOrBackTakesPartWithNothingLeftToSend) {
  for (const auto& [name, s] : ways(3)) {
    if (name != "late" && name != "diloco") continue;  // as the others of their kind
    SCOPED_TRACE(name);
    const auto result = train_while_some_come_and_go(s, name);
    EXPECT_EQ(result["sites"], 3);
    EXPECT_THAT(log_, HasSubstr("has no file of what it had not sent"));
    EXPECT_THAT(unsent_of("a"), ::testing::IsEmpty());
    EXPECT_THAT(unsent_of("b"), ::testing::IsEmpty());
  }
}

// While another is left there.
TEST_F(SlowLinkGroup, WhoComesToASiteGetsWhatItHasNotSentFromAnother) {
  site_ = "oslo";
  EXPECT_EQ(train_while_some_come_and_go(sparse(3), "site")["sites"], 2);
  EXPECT_THAT(log_, Not(HasSubstr("has no file of what it had not sent")));
}

TEST_F(SlowLinkGroup, WhereNobodyComesTheTunerIsTheOnlyRank) {
  JobSpec s = sparse(3);
  s.store_timeout = 1;
  const auto result = train(s, "nobody");
  EXPECT_EQ(result["tuners"], 1);
  EXPECT_EQ(result["sync"], "sparse");
  EXPECT_EQ(result["epochs"], 4);
  EXPECT_THAT(log_, HasSubstr("no other Tuner is here: this one trains alone\n"));
}

// Batches and drop follow what Tuners and links take.
class ControlledGroup : public SlowLinkGroup {
 protected:
  static JobSpec controlled(int tuners) {
    JobSpec s = longer(sparse(tuners));
    s.slow_link.controller = true;
    std::string profile =
        "ndtrain-convergence-1\nmodel base\nover drop\nreference_batch 12\nreference_drop 0.9\n"
        "largest_batch 24\n";
    for (const double batch : {0.25, 0.5, 1.0}) {
      for (const double drop : {0.5, 0.9, 0.99}) {
        profile += fmt::format("point {} {} {}\n", batch, drop, 0.02 * batch + 0.01 * drop);
      }
    }
    s.slow_link.convergence = profile;
    return s;
  }
  std::string rates(const std::string& state) const {
    return real_fs().read(at(state + "/jobs/1/run/rates.log")).or_throw();
  }
};

TEST_F(ControlledGroup, GoesByWhatItMeasuresAndSaysWhatWasDecided) {
  join("a");
  const auto result = train(controlled(2), "controlled");
  EXPECT_EQ(result["controller"], true);
  EXPECT_FALSE(result.contains("convergence"));
  EXPECT_GT(result["decisions"], 0) << log_;
  EXPECT_EQ(result["decided_batches"].size(), 2U);
  EXPECT_GT(result["decided_batch"], 12) << log_;
  EXPECT_EQ(result["epochs"], 2 * kLonger);
  EXPECT_THAT(log_, HasSubstr("batches and drop follow what ranks and links take: rates.log"));
  EXPECT_THAT(log_, HasSubstr("; each decision is in run/rates.log"));
  EXPECT_THAT(rates("controlled"), HasSubstr("batches grow"));
}

TEST_F(ControlledGroup, OfADryRunTrainsTheSameAgain) {
  JobSpec dry = controlled(2);
  dry.dry_run = true;
  dry.slow_link.largest_batch = 8;
  join("a");
  const auto result = train(dry, "dry1");
  EXPECT_EQ(result["decisions"], 0);
  EXPECT_EQ(result["decided_batches"], nlohmann::json({8, 8})) << log_;
  EXPECT_THAT(log_, HasSubstr("dry run: batches 8 8"));
  EXPECT_EQ(train(dry, "dry2")["model_id"], result["model_id"]) << log_;
}

// At any step, with rows that any of them may be given.
TEST_F(ControlledGroup, WhereAMemberIsLostTheOthersMeasureAnew) {
  for (const char* when : {"3 of 3 Tuners", "epoch 5/"}) {
    SCOPED_TRACE(when);
    join("a");
    join("b");
    const std::string state = std::string("lost") + when[0];
    const auto result = train(controlled(3), state, [&](const std::string& line) {
      if (line.starts_with(when)) members_.erase("a");
    });
    EXPECT_EQ(result["lost_tuners"], nlohmann::json({"a"})) << log_;
    EXPECT_EQ(result["regrouped"], 1);
    EXPECT_EQ(result["epochs"], 2 * kLonger);
    EXPECT_EQ(result["decided_batches"].size(), 2U);
    EXPECT_THAT(log_, HasSubstr("the controller measures anew, from the job's batch and drop on"));
    EXPECT_THAT(rates(state), HasSubstr("warmed up"));
    members_.clear();
  }
}

TEST_F(ControlledGroup, TheLastOneGoesOnWithTheJobsBatchAndWhoComesBackIsMeasured) {
  join("a");
  bool back = false;
  JobSpec s = controlled(2);
  s.trainer.epochs = kLong;
  const auto result = train(s, "alone", [&](const std::string& line) {
    if (line.starts_with("epoch 5/") && members_.contains("a")) members_.erase("a");
    if (line.starts_with("epoch 9/") && !std::exchange(back, true)) join("a");
  });
  EXPECT_THAT(log_, HasSubstr("; this Tuner goes on from epoch "));
  EXPECT_THAT(log_, HasSubstr("a is here: all Tuners meet again"));
  EXPECT_EQ(result["taken_in_tuners"], nlohmann::json({"a"}));
  EXPECT_EQ(result["epochs"], 2 * kLong);
  EXPECT_EQ(result["decided_batches"].size(), 2U) << log_;
}

TEST_F(ControlledGroup, WhereNobodyComesNothingIsDecided) {
  JobSpec s = controlled(2);
  s.store_timeout = 1;
  const auto result = train(s, "nobody");
  EXPECT_EQ(result["decisions"], 0);
  EXPECT_FALSE(result.contains("decided_batches"));
  EXPECT_THAT(log_, HasSubstr("stay as they were asked for while there is one site alone"));
}

TEST_F(ControlledGroup, AJobThatIsInterruptedGoesOnAndMeasuresAnew) {
  join("a");
  const auto result = in_two_lives(controlled(2), "lives", [] {});
  EXPECT_EQ(result["epochs"], 2 * kLonger);
  EXPECT_GT(result["decisions"], 0) << log_;
  EXPECT_THAT(log_, Not(HasSubstr("that is lost")));
}

// In two lives of the Tuner, by the same members or others.
class SlowLinkLives : public SlowLinkGroup {};

TEST_F(SlowLinkLives, AJobThatIsInterruptedGoesOnWithWhatWasNotSentToTheSameWeights) {
  join("a");
  for (const auto& [name, s] : ways(2)) {
    SCOPED_TRACE(name);
    const std::string expected = train(longer(s), name)["model_id"];
    const auto result = in_two_lives(longer(s), name + "-lives", [&] {
      EXPECT_THAT(unsent_of("a"), Not(::testing::IsEmpty()));
      EXPECT_THAT(unsent_of("a"), Each(HasSubstr("job1-")));
    });
    EXPECT_EQ(result["model_id"], expected) << log_;
    EXPECT_THAT(log_, Not(HasSubstr("that is lost")));
    EXPECT_THAT(unsent_of("a"), ::testing::IsEmpty());
  }
}

TEST_F(SlowLinkLives, AMemberThatIsNewBeginsWithNothingLeftToSendAndItIsSaid) {
  for (const auto& [name, s] : ways(2)) {
    if (name == "dgc" || name == "local") continue;  // as the others of their kind
    SCOPED_TRACE(name);
    join("a");
    const auto result = in_two_lives(longer(s), name, [&] {
      members_.clear();
      join("b");
    });
    EXPECT_EQ(result["tuners"], 2);
    EXPECT_THAT(log_, HasSubstr("rank 1 has no file of what it had not sent"));
    members_.clear();
  }
}

TEST_F(SlowLinkGroup, ADropOfWhatIsNoParameterEndsTheJobWithTheNamesThereAre) {
  JobSpec s = sparse(2);
  s.slow_link.drop_of = {"nothing*=0.5"};
  TunerDaemon daemon(tuner("refused"), devices_, real_fs(), system_clock());
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  join("a");
  RunningStore one(store("refused0", 0, 2), devices_), other(store("refused1", 1, 2), devices_);
  const TunerDaemon::Outcome o = daemon.run_job(
      s, [] { return false; }, [](const std::string&) {});
  EXPECT_FALSE(o.done);
  EXPECT_THAT(o.message, HasSubstr("drop of 'nothing*': no parameter that is trained has such"));
  EXPECT_THAT(o.message, HasSubstr("fc.weight"));
}

// Each Tuner has the rows of its own shards alone, of all views.
TEST_F(SlowLinkGroup, ViewsThatAreDrawnAndMixedTrainTheSameAgain) {
  join("a");
  JobSpec plain = sparse(2);
  const std::string as_they_are = train(plain, "plain")["model_id"];
  JobSpec s = plain;
  s.augmentation = {.flip = true, .mixup = 1};
  s.views = 2;
  s.sampling.balanced = true;
  const std::string model = train(s, "mixed")["model_id"];
  EXPECT_NE(model, as_they_are);
  EXPECT_EQ(train(s, "again")["model_id"], model) << log_;
}

}  // namespace
}  // namespace ndtrain::tuner
