// ndtrain plan train --link as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

// A layer of ten million elements that computes for .1 s.
constexpr const char* kCosts = R"({"format": 1, "source": "measured here", "ranks": 2,
  "optimizer_s_per_element": 0,
  "collectives": {"reduce_scatter": {"alpha_s": 0, "beta_s_per_byte": 0},
                  "all_gather": {"alpha_s": 0, "beta_s_per_byte": 0},
                  "all_reduce": {"alpha_s": 0, "beta_s_per_byte": 0},
                  "reduce": {"alpha_s": 0, "beta_s_per_byte": 0},
                  "broadcast": {"alpha_s": 0, "beta_s_per_byte": 0}},
  "layers": [{"elements": 10000000, "forward_s": 0.04, "backward_s": 0.06}]})";

class PlanMethods : public testing_cli::ProgramTest {
 protected:
  void SetUp() override { write("costs.json", kCosts); }

  void write(const std::string& name, const std::string& text) const {
    publish(real_fs(), at(name), text).or_throw();
  }
  Outcome plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", "train"});
    return run(words);
  }
  nlohmann::json compared(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--json", "--profile", "costs.json"});
    const Outcome o = plan(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  static nlohmann::json of(const nlohmann::json& all, const std::string& method) {
    for (const nlohmann::json& m : all.at("methods")) {
      if (m.at("method") == method) return m;
    }
    ADD_FAILURE() << method << " is not there";
    return {};
  }
  nlohmann::json alone(const std::string& method, std::vector<std::string> more) const {
    more.insert(more.end(), {"--sync", method});
    return of(compared(more), method);
  }
};

TEST_F(PlanMethods, TheLinkDecidesWhichIsFirst) {
  const nlohmann::json slow = compared({"--link", "10M"}), fast = compared({"--link", "100G"});
  EXPECT_FALSE(slow.at("methods")[0].at("exact").get<bool>());
  EXPECT_EQ(fast.at("methods")[0].at("method"), "auto");
  double before = 0;
  for (const nlohmann::json& m : slow.at("methods")) {
    EXPECT_GE(m.at("time_s").get<double>(), before);
    before = m.at("time_s").get<double>();
    EXPECT_NEAR(before, m.at("step_s").get<double>() * m.at("steps_factor").get<double>() * 1000,
                1e-6);
  }
  // 40 MB, with headers of packets.
  const double blocking = of(slow, "blocking").at("step_s").get<double>();
  EXPECT_NEAR(blocking, 0.1 + 2e-3 + 4e7 / (1.25e6 * 1448 / 1514), 1e-6);
}

TEST_F(PlanMethods, ATableSaysWhatItGoesByAndHowToAskForTheFirst) {
  const Outcome o =
      plan({"--link", "10M", "--profile", "costs.json", "--sync", "ddp,sparse:1:0.9"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("2 ranks, 64 rows a step, 10M bit/s"),
                           HasSubstr("computing is that of costs.json"),
                           HasSubstr("by steps that are assumed"), HasSubstr("assumed\n"),
                           HasSubstr("exact\n"),
                           HasSubstr("first: ndtrain train … --ranks 2 --sync sparse "
                                     "--staleness 1 --drop 0.9")));
}

TEST_F(PlanMethods, EveryFlagChangesWhatItSays) {
  const auto step = [&](const std::string& method, const std::vector<std::string>& words) {
    return alone(method, words).at("step_s").get<double>();
  };
  EXPECT_NEAR(step("ddp", {"--link", "10M", "--latency", "1"}) - step("ddp", {"--link", "10M"}),
              2 - 2e-3, 1e-6);
  EXPECT_GT(step("ddp", {"--link", "10M", "-n", "4"}), step("ddp", {"--link", "10M"}));
  EXPECT_GT(step("local:50", {"--link", "10M", "--epoch-steps", "10"}),
            4 * step("local:50", {"--link", "10M"}));
  EXPECT_EQ(compared({"--link", "10M", "-b", "32"}).at("rows"), 32);
  const nlohmann::json one = alone("ddp", {"--link", "10M", "--steps", "1"});
  EXPECT_EQ(one.at("time_s"), one.at("step_s"));
}

TEST_F(PlanMethods, AConvergenceProfileTakesThePlaceOfWhatIsAssumed) {
  write("convergence.txt",
        "ndtrain-convergence-1\nmodel net\nover drop\nreference_batch 64\nreference_drop 0\n"
        "largest_batch 64\npoint 1 0 0\npoint 1 0.9 0\npoint 1 0.99 0.1\npoint 1 0.999 0.2\n");
  const std::vector<std::string> words = {"--link", "10M", "--convergence", "convergence.txt"};
  const nlohmann::json dear = alone("sparse:0:0.99", words);
  EXPECT_NEAR(dear.at("steps_factor").get<double>(), 6, 0.5) << "1 + 50 x .1";
  EXPECT_THAT(dear.at("steps_factor_from").get<std::string>(), HasSubstr("penalty 0."));
  EXPECT_EQ(alone("sparse:0:0.99", {"--link", "10M"}).at("steps_factor_from"), "assumed");
  write("broken.txt", "ndtrain-convergence-1\nmodel\n");
  const Outcome o =
      plan({"--link", "10M", "--profile", "costs.json", "--convergence", "broken.txt"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("broken.txt, line 2"));
}

TEST_F(PlanMethods, AModelIsMeasuredHereOrGivesTheShapesOfAProfile) {
  ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "3", "-o", "m.onnx"}).code, 0);
  const Outcome o = plan({"--json", "--link", "1M", "-m", "m.onnx", "-b", "8"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json here = nlohmann::json::parse(o.out);
  EXPECT_GT(of(here, "ddp").at("computing_s").get<double>(), 0);
  EXPECT_EQ(of(here, "ddp").at("sent_bytes").get<double>(), 4 * 23891);  // of tinynet
  EXPECT_LT(of(here, "powersgd:4").at("sent_bytes").get<double>(), 4 * 23891);
  EXPECT_GT(here.at("work").at("choose_s").get<double>(), 0);

  ASSERT_EQ(run({"profile", "-m", "m.onnx", "-b", "4", "--steps", "2", "-o", "p.json"}).code, 0);
  const Outcome without = plan({"--json", "--link", "1M", "--profile", "p.json"});
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("powersgd is left out: give -m MODEL"));
  EXPECT_EQ(nlohmann::json::parse(without.out).at("rows"), 4);
  const Outcome with = plan({"--json", "--link", "1M", "--profile", "p.json", "-m", "m.onnx"});
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_EQ(of(nlohmann::json::parse(with.out), "powersgd:4").at("sent_bytes"),
            of(here, "powersgd:4").at("sent_bytes"));
  const Outcome other =
      plan({"--link", "1M", "--profile", "p.json", "-m", "m.onnx", "--freeze", "auto"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("not of the same --freeze"));
}

TEST_F(PlanMethods, SaysWhatIsWrongWithWhatItWasGiven) {
  const auto refused = [&](std::vector<std::string> words, const std::string& what) {
    const Outcome o = plan(std::move(words));
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  const auto wrong = [&](std::vector<std::string> words, const std::string& what) {
    words.insert(words.begin(), {"--link", "10M", "--profile", "costs.json"});
    refused(std::move(words), what);
  };
  refused({"--link", "10M"}, "--link without --model or --profile");
  refused({"--link", "fast", "--profile", "costs.json"}, "--link fast");
  refused({"--sync", "ddp"}, "--sync is of --link: add that");
  refused({"--convergence", "c.txt"}, "--convergence is of --link");
  wrong({"--network", "network.json"}, "--network with --link: it is of plans of stages");
  wrong({"--sync", "sparse:1:2"}, "--sync sparse:1:2: the drop: 0 to below 1");
  wrong({"--sync", "fastest"}, "--sync fastest: there is no such schedule");
  wrong({"-n", "1"}, "-n 1 with --link");
  wrong({"-n", "4,2"}, "-n 4,2 with --link");
  wrong({"-n", "4", "2"}, "-n 4 with --link");
  wrong({"-b", "1"}, "--batch 1 but 2 ranks");
  wrong({"--steps", "0"}, "--steps 0");
  wrong({"--epoch-steps", "0"}, "--epoch-steps 0");
  wrong({"--latency", "-1"}, "--latency -1");
  const Outcome shapes = plan({"--link", "10M", "--profile", "costs.json", "--sync", "powersgd:4"});
  EXPECT_EQ(shapes.code, 1);
  EXPECT_THAT(shapes.err, HasSubstr("shapes of the parameters are not known; give the model"));
  const Outcome two = plan({"--link", "10M", "--profile", "costs.json#vgg"});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.err, HasSubstr("one network, as costs.json#NAME; there are costs"));
}

}  // namespace
}  // namespace ndtrain
