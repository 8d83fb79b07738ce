// A machine that trains with a Tuner goes on with the one that takes its state over.
#include <gmock/gmock.h>

#include "tests/cli/standby_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

class MemberTakeover : public testing_cli::StandbyTest {
 protected:
  void SetUp() override {
    StandbyTest::SetUp();
    if (IsSkipped()) return;
    begin("a");
    ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
    begin("b");
    begin_store();
  }
  void begin_member(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args{"tuner",   "join",   "--tuner", link("a") + "," + link("b"),
                                  "--state", "member", "--name",  "m"};
    args.insert(args.end(), more.begin(), more.end());
    running_["m"] = start_as("m", args);
    ASSERT_TRUE(comes([&] { return serves("a") && get("a", "/members").size() == 1; }))
        << said_by("store") << said_by("m");
  }

  // However long a busy machine takes until the member is back.
  nlohmann::json submit(const std::string& tuners) {
    const auto o = run({"job",        "submit",          "finetune", "-m",
                        "m.onnx",     "--freeze",        "layer1",   "-e",
                        "60",         "--batch",         "8",        "--stores",
                        "1",          "--shards",        "2",        "--tuners",
                        tuners,       "--no-publish",    "--json",   "--http",
                        serving("a"), "--store-timeout", "600"});
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out).at("job");
  }
  std::string job(const nlohmann::json& number, const std::string& more = "") const {
    return "/jobs/" + number.dump() + more;
  }
  nlohmann::json result(const std::string& tuner, const nlohmann::json& number) {
    const auto is_done = [&] { return get(tuner, job(number)).value("state", "") == "done"; };
    EXPECT_TRUE(comes(is_done, std::chrono::minutes(4)))
        << get(tuner, job(number)) << get(tuner, job(number, "/log")) << said_by("m");
    return get(tuner, job(number)).at("result");
  }

  // In the midst of what two Tuners train the one that leads is hit by `signal`; the job.
  nlohmann::json hit_in_a_training(int signal) {
    auto number = submit("2");
    EXPECT_TRUE(comes([&] {
      const std::string log = get("a", job(number, "/log")).dump();
      return log.find("2 of 2 Tuners train") != std::string::npos &&
             log.find("epoch 2/") != std::string::npos;
    })) << get("a", job(number, "/log"));
    EXPECT_EQ(get("a", job(number)).value("state", ""), "running");
    kill(running_.at("a"), signal);
    EXPECT_TRUE(comes([&] { return serves("b"); })) << said_by("b");
    return number;
  }
  nlohmann::json trained_on(const nlohmann::json& number) {
    const auto done = result("b", number);
    EXPECT_EQ(done.at("tuners"), 2) << get("b", job(number, "/log")) << said_by("m");
    EXPECT_EQ(get("b", "/members").size(), 1u);
    return done;
  }
};

TEST_F(MemberTakeover, WhereTheTunerIsKilledTheWeightsAreThoseOfOneTuner) {
  begin_member();
  const auto expected = result("a", submit("1")).at("model_id");
  EXPECT_EQ(trained_on(hit_in_a_training(SIGKILL)).at("model_id"), expected);
}

// Its connections stand, so that its silence would count after --rank-timeout alone.
TEST_F(MemberTakeover, WhereTheTunerIsPausedItsTrainingIsLeftForTheNextOnes) {
  begin_member({"--rank-timeout", "600"});
  const auto number = hit_in_a_training(SIGSTOP);
  EXPECT_TRUE(comes([&] { return get("b", "/members").size() == 1; })) << said_by("m");
  const auto has_left = [&] {
    return said_by("m").find("job " + number.dump() + ": stopped") != std::string::npos;
  };
  EXPECT_TRUE(comes(has_left)) << said_by("m");
  trained_on(number);
  kill(running_.at("a"), SIGCONT);
  (void)end("a");
}

}  // namespace
}  // namespace ndtrain
