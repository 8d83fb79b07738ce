// Several Tuners as real processes, some of which are killed.
#include <signal.h>

#include <fstream>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class TunerGroupVerbs : public testing_cli::SiteTest {
 protected:
  void SetUp() override {
    draw_photos(40);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    site_ = up_json(2);
  }
  void TearDown() override {
    for (const auto& [name, process] : members_) end(process, SIGTERM);
    SiteTest::TearDown();
  }

  static void end(pid_t process, int signal) {
    kill(process, signal);
    waitpid(process, nullptr, 0);
  }

  void join(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"tuner",   "join", "--tuner",        site_.at("listen"),
                                      "--state", name,   "--name",         name,
                                      "--disk",  "1G",   "--rank-timeout", "20"};
    words.insert(words.end(), more.begin(), more.end());
    members_[name] = start_as(name, words);
  }
  void kill_one(const std::string& name) {
    end(members_.at(name), SIGKILL);
    members_.erase(name);
  }
  size_t members_here() const { return ask(site_, {"tuner", "members"}).size(); }

  nlohmann::json submit(const std::string& epochs, std::vector<std::string> more) const {
    std::vector<std::string> words = {
        "job",  "submit",  "finetune", "-m",     "m.onnx", "--freeze", "layer1", "--epochs",
        epochs, "--batch", "12",       "--runs", "2",      "--shards", "6",      "--no-publish"};
    words.insert(words.end(), more.begin(), more.end());
    return ask(site_, words);
  }
  nlohmann::json job(const nlohmann::json& submitted) const {
    return ask(site_, {"job", "show", std::to_string(submitted.at("job").get<int>())});
  }
  nlohmann::json result(const nlohmann::json& submitted) const {
    EXPECT_TRUE(comes([&] { return job(submitted).at("state") != "running"; }));
    const nlohmann::json j = job(submitted);
    EXPECT_EQ(j.at("state"), "done") << j;
    return j.at("result");
  }
  std::string metrics() const {
    return HttpClient(site_.at("http").get<std::string>()).get("/metrics").or_throw().body;
  }

  nlohmann::json site_;
  std::map<std::string, pid_t> members_;
};

TEST_F(TunerGroupVerbs, AMemberThatIsKilledLeavesTheWeightsThatOneTunerTrains) {
  const nlohmann::json alone = submit("40", {"--follow"});
  join("m1");
  join("m2");
  ASSERT_TRUE(comes([&] { return members_here() == 2; })) << said_by("m1");
  EXPECT_THAT(run({"tuner", "members", "--http", site_.at("http")}).out, HasSubstr("m2"));
  const nlohmann::json three = submit("40", {"--tuners", "3", "--sync", "auto"});
  ASSERT_TRUE(comes([&] {
    return metrics().find("\nndtrain_training_tuners 3") != std::string::npos;
  })) << said_by("m1");
  kill_one("m1");
  const nlohmann::json by_three = result(three);
  EXPECT_EQ(by_three.at("model_id"), alone.at("result").at("model_id"));
  EXPECT_EQ(by_three.at("tuners"), 3);
  EXPECT_EQ(by_three.value("lost_tuners", nlohmann::json()), nlohmann::json({"m1"}));
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_training_lost 1"));
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_training_tuners 2"));
  EXPECT_THAT(said_by("m2"), HasSubstr("trained to its end"));
}

TEST_F(TunerGroupVerbs, AJobThatIsPausedGoesOnWithMoreTuners) {
  const nlohmann::json alone = submit("60", {"--follow"});
  const nlohmann::json one = submit("60", {"--sync", "dear"});
  ASSERT_TRUE(comes([&] { return job(one).at("state") == "running"; }));
  ask(site_, {"job", "pause", "2"});
  join("m1");
  ASSERT_TRUE(comes([&] { return members_here() == 1; })) << said_by("m1");
  const nlohmann::json resumed =
      ask(site_, {"job", "resume", "2", "--tuners", "2", "--sync", "wfbp"});
  EXPECT_EQ(resumed.at("spec").at("tuners"), 2);
  EXPECT_EQ(resumed.at("spec").at("sync"), "wfbp");
  EXPECT_EQ(result(one).at("model_id"), alone.at("result").at("model_id"));
}

TEST_F(TunerGroupVerbs, AsStagesThoseThatAreLeftGoOnWhereAMemberIsKilled) {
  join("m1");
  join("m2");
  ASSERT_TRUE(comes([&] { return members_here() == 2; })) << said_by("m1");
  const nlohmann::json submitted =
      submit("40", {"--tuners", "3", "--parallel", "auto", "--sync", "auto"});
  EXPECT_EQ(job(submitted).at("spec").at("parallel"), "auto");
  const nlohmann::json staged = ask(site_, {"job",
                                            "submit",
                                            "finetune",
                                            "-m",
                                            "m.onnx",
                                            "--freeze",
                                            "layer1",
                                            "--epochs",
                                            "200",
                                            "--batch",
                                            "12",
                                            "--runs",
                                            "2",
                                            "--no-publish",
                                            "--tuners",
                                            "3",
                                            "--parallel",
                                            "pipeline",
                                            "--pipeline-schedule",
                                            "1f1b",
                                            "--micro-batches",
                                            "2"});
  const nlohmann::json any = result(submitted);
  EXPECT_EQ(any.at("tuners"), 3);
  EXPECT_EQ(any.at("parallel"), "auto");
  ASSERT_TRUE(comes([&] {
    return said_by("m1").find("whose training has 3 stages") != std::string::npos;
  })) << said_by("m1");
  // Who is lost before it has trained is none of them.
  ASSERT_TRUE(comes([&] {
    return job(staged).value("doing", "").find("epoch") != std::string::npos;
  })) << job(staged);
  kill_one("m1");
  const nlohmann::json by_stages = result(staged);
  EXPECT_EQ(by_stages.at("schedule"), "1f1b");
  EXPECT_EQ(by_stages.value("lost_tuners", nlohmann::json()), nlohmann::json({"m1"}));
  EXPECT_EQ(by_stages.at("epochs"), 400);
}

TEST_F(TunerGroupVerbs, BatchesAndDropFollowWhatTunersAndLinksTake) {
  const auto write_profile = [&](const std::string& of_model) {
    std::ofstream(at("c.txt")) << "ndtrain-convergence-1\nmodel " << of_model
                               << "\nover drop\nreference_batch 12\nreference_drop 0.9\n"
                                  "largest_batch 24\npoint 0.25 0.5 0.01\npoint 0.5 0.9 0.02\n"
                                  "point 1 0.99 0.03\n";
  };
  const std::vector<std::string> asked = {"--tuners", "2",   "--sync",       "sparse",
                                          "--drop",   "0.9", "--controller", "--convergence",
                                          "c.txt"};
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"job", "submit", "finetune", "--http", site_.at("http"),
                                    "-m",  "m.onnx", "--freeze", "layer1", "--batch",
                                    "12"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 2) << o.err;
    return o.err;
  };
  const std::vector<std::string> sparse = {"--tuners", "2", "--sync", "sparse"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  write_profile("resnet18");
  EXPECT_THAT(refused(asked), HasSubstr("--convergence c.txt: is of resnet18, not of m; measure"));
  std::ofstream(at("c.txt")) << "something else\n";
  EXPECT_THAT(refused(asked), HasSubstr("c.txt, line 1: "));
  write_profile("m");
  EXPECT_THAT(refused(with(asked, {"--largest-batch", "25"})),
              HasSubstr("job: largest_batch 25: 1 to 24"));
  EXPECT_THAT(refused(with(sparse, {"--controller"})), HasSubstr("--convergence"));
  EXPECT_THAT(refused(with(sparse, {"--dry-run"})), HasSubstr("--dry-run of a fine-tuning is of"));
  EXPECT_THAT(refused(with(sparse, {"--convergence", "c.txt"})),
              HasSubstr("job: convergence without controller"));

  join("m1");
  ASSERT_TRUE(comes([&] { return members_here() == 1; })) << said_by("m1");
  const nlohmann::json by_two = result(submit("40", asked));
  EXPECT_GT(by_two.at("decisions"), 0) << by_two;
  EXPECT_EQ(by_two.at("decided_batches").size(), 2U);
  const nlohmann::json dry =
      result(submit("40", with(asked, {"--dry-run", "--largest-batch", "8"})));
  EXPECT_EQ(dry.at("decisions"), 0);
  EXPECT_EQ(dry.at("decided_batches"), nlohmann::json({8, 8}));
}

TEST_F(TunerGroupVerbs, OverSlowLinksTheOthersGoOnWhereAMemberIsKilled) {
  join("m1", {"--site", "oslo", "--relay", "--listen", "127.0.0.1:0"});
  join("m2", {"--relay"});
  ASSERT_TRUE(comes([&] { return members_here() == 2; })) << said_by("m1");
  const nlohmann::json here = ask(site_, {"tuner", "members"});
  EXPECT_EQ(here.at(0).at("site"), "oslo");
  EXPECT_EQ(here.at(1).at("site"), "");
  EXPECT_THAT(run({"tuner", "members", "--http", site_.at("http")}).out,
              ::testing::ContainsRegex("m1 .* oslo .*\nm2 .* - "));
  const nlohmann::json three = submit("60", {"--tuners",
                                             "3",
                                             "--sync",
                                             "sparse",
                                             "--compressor",
                                             "threshold-v",
                                             "--drop",
                                             "0.9",
                                             "--drop-of",
                                             "fc.weight=0.5",
                                             "--scan",
                                             "rotate",
                                             "--all-gather",
                                             "ring",
                                             "--staleness",
                                             "1",
                                             "--drain-every",
                                             "3",
                                             "--opt",
                                             "sgd",
                                             "--wire-dtype",
                                             "int8",
                                             "--verify",
                                             "2",
                                             "--sparse-momentum",
                                             "lazy",
                                             "--pieces"});
  ASSERT_TRUE(comes([&] {
    return metrics().find("\nndtrain_training_tuners 3") != std::string::npos;
  })) << said_by("m1");
  EXPECT_THAT(metrics(), ::testing::Not(HasSubstr("\nndtrain_training_step_sent_bytes 0\n")));
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_training_link_mbps{direction=\"receive\"} "));
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_training_step_part_seconds{part=\"backward\"} "));
  EXPECT_TRUE(comes([&] {  // behind the first epoch that has more than one step behind it
    return metrics().find("{part=\"backward\"} 0\n") == std::string::npos;
  })) << metrics();
  kill_one("m1");
  const nlohmann::json by_three = result(three);
  EXPECT_EQ(by_three.value("lost_tuners", nlohmann::json()), nlohmann::json({"m1"}));
  EXPECT_EQ(by_three.at("regrouped"), 1);
  EXPECT_EQ(by_three.at("sites"), 2);  // that are left
  EXPECT_GT(by_three.at("relayed_bytes"), 0);
  EXPECT_EQ(by_three.at("sync"), "sparse");
  EXPECT_EQ(by_three.at("compressor"), "threshold-v");
  EXPECT_GT(by_three.at("step_sent_bytes").get<double>(), 0);
  const nlohmann::json spec = job(three).at("spec");
  EXPECT_EQ(spec.at("drop"), 0.9);
  EXPECT_EQ(spec.at("drop_of"), nlohmann::json({"fc.weight=0.5"}));
  EXPECT_EQ(spec.at("scan"), "rotate");
  EXPECT_EQ(spec.at("all_gather"), "ring");
  EXPECT_EQ(spec.at("staleness"), 1);
  EXPECT_EQ(spec.at("drain_every"), 3);
  EXPECT_EQ(spec.at("wire_dtype"), "int8");
  EXPECT_EQ(spec.at("verify"), 2);
  EXPECT_EQ(spec.at("sparse_momentum"), "lazy");
  EXPECT_EQ(spec.at("pieces"), true);
  EXPECT_THAT(said_by("m2"), HasSubstr("rank 1 is lost; 2 of 3 go on"));
  EXPECT_THAT(said_by("m2"), HasSubstr("trained to its end"));
}

TEST_F(TunerGroupVerbs, WithLocalStepsAndThinMatricesTheyTrainToo) {
  join("m1");
  ASSERT_TRUE(comes([&] { return members_here() == 1; })) << said_by("m1");
  const nlohmann::json diloco = submit(
      "3", {"--tuners", "2", "--sync", "diloco", "--inner-steps", "4", "--outer-lr", "0.5",
            "--outer-momentum", "0.8", "--fragments", "2", "--overlap", "1", "--mixing", "0.25"});
  const nlohmann::json outer = job(diloco).at("spec");
  EXPECT_EQ(outer.at("inner_steps"), 4);
  EXPECT_EQ(outer.at("outer_lr"), 0.5);
  EXPECT_EQ(outer.at("outer_momentum"), 0.8);
  EXPECT_EQ(outer.at("fragments"), 2);
  EXPECT_EQ(outer.at("overlap"), 1);
  EXPECT_EQ(outer.at("mixing"), 0.25);
  EXPECT_EQ(result(diloco).at("tuners"), 2);
  const nlohmann::json local = submit("3", {"--tuners", "2", "--sync", "local"});
  EXPECT_EQ(result(local).at("sync"), "local");
  const nlohmann::json low_rank =
      submit("3", {"--tuners", "2", "--sync", "powersgd", "--factor-rank", "2"});
  EXPECT_EQ(result(low_rank).at("factor_rank"), 2);
}

TEST_F(TunerGroupVerbs, WhatCannotBeIsRefusedByName) {
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--http", site_.at("http").get<std::string>()});
    const Outcome o = run(words);
    EXPECT_NE(o.code, 0);
    return o.err;
  };
  const std::vector<std::string> job = {"job",    "submit",   "finetune", "-m",
                                        "m.onnx", "--freeze", "layer1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return refused(more);
  };
  EXPECT_THAT(with({"--tuners", "65"}), HasSubstr("tuners 65: from 1 to 64"));
  EXPECT_THAT(with({"--tuners", "3", "--shards", "2"}),
              HasSubstr("shards 2: from the number of tuners to the photos of a batch"));
  EXPECT_THAT(with({"--tuners", "2", "--sync", "ring"}), HasSubstr("sync ring: there is no such"));
  EXPECT_THAT(with({"--sync", "sparse"}), HasSubstr("sync sparse: it is between Tuners; take tun"));
  EXPECT_THAT(with({"--tuners", "2", "--sync", "sparse", "--drop", "1"}),
              HasSubstr("drop 1: 0 to below 1"));
  EXPECT_THAT(with({"--tuners", "2", "--sync", "sparse", "--inner-steps", "5"}),
              HasSubstr("inner_steps 5 with sync sparse: it is of sync local, diloco"));
  EXPECT_THAT(with({"--tuners", "2", "--wire-dtype", "f16"}),
              HasSubstr("wire_dtype f16 with sync ddp: it is of sync sparse"));
  EXPECT_THAT(with({"--tuners", "2", "--sync", "topk"}),
              HasSubstr("which elements of a gradient travel"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "tensor"}),
              HasSubstr("parallel tensor: there are dp, pipeline, hybrid and auto"));
  EXPECT_THAT(with({"--parallel", "auto"}), HasSubstr("it takes several Tuners, --tuners 2"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "auto", "--accumulate", "2"}),
              HasSubstr("the plan's micro-batches; leave accumulate 2 away"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "hybrid", "--clip-norm", "1"}),
              HasSubstr("stages do not clip gradients"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "auto", "--pipeline-schedule", "ring"}),
              HasSubstr("pipeline_schedule ring"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "auto", "--micro-batches", "33"}),
              HasSubstr("micro_batches 33: from 1 to 32"));
  EXPECT_THAT(with({"--tuners", "2", "--micro-batches", "2"}),
              HasSubstr("--micro-batches is of stages: give --parallel"));
  EXPECT_THAT(with({"--tuners", "2", "--parallel", "pipeline", "--sync", "rb"}),
              HasSubstr("--sync with --parallel pipeline"));
  Outcome o = run({"tuner", "join", "--state", "x", "--tuner", "10.0.0.1:25258"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("10.0.0.1:25258 can be reached by other machines"));
  o = run({"tuner", "join", "--state", "x", "--listen", "0.0.0.0:1"});
  EXPECT_THAT(o.err, HasSubstr("0.0.0.0:1 can be reached by other machines"));
  o = run({"tuner", "join", "--state", "x", "--name", "a b"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--name a b: letters"));
  o = run({"tuner", "join", "--state", "x", "--rank-timeout", "0"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--rank-timeout 0: 1 to 86400"));
  o = run({"tuner", "serve", "--state", "y", "--ranks-listen", "0.0.0.0:7"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("0.0.0.0:7 can be reached by other machines"));
  o = run({"tuner", "serve", "--state", "y", "--site", "a b"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--site a b: letters"));
  o = run({"tuner", "join", "--state", "x", "--relay", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--relay with --listen 127.0.0.1:0"));
  o = run({"tuner", "join", "--state", "x", "--relay", "--site", "oslo"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--relay with --site oslo: members there dial it; give --listen"));
  o = run({"tuner", "join", "--state", "site/tuner"});
  EXPECT_EQ(o.code, 1) << "the state directory of another role";
}

}  // namespace
}  // namespace ndtrain
