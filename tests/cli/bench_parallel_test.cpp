// `bench parallel`: each flag, a matrix that is killed and goes on, and what is refused.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "framework/core/net.h"
#include "framework/parallel/cost_profile_json.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

constexpr const char* kTwoNetworks = R"({"networks": {
  "one": {"layers_elements_backward_s_forward_s": [[320, 1e-3, 1e-3], [64, 1e-3, 1e-3]],
          "alpha_s": 2e-4, "beta_s_per_element": 1e-7},
  "two": {"layers_elements_backward_s_forward_s": [[64, 2e-3, 1e-3], [640, 1e-3, 1e-3]],
          "alpha_s": 2e-4, "beta_s_per_element": 1e-7}}})";

class BenchParallel : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    CostProfile costs;
    costs.source = "made up";
    costs.layers = {{160, 1e-3, 1e-3}, {0, 1e-3, 1e-3}, {4096, 1e-3, 1e-3}, {7, 1e-3, 1e-3}};
    for (auto* c : {&costs.reduce_scatter, &costs.all_gather, &costs.reduce, &costs.broadcast}) {
      *c = {.alpha_s = 1e-4, .beta_s_per_byte = 1e-8};
    }
    costs.all_reduce = {.alpha_s = 2e-4, .beta_s_per_byte = 2e-8};
    publish(real_fs(), at("tiny.json"), to_json(costs)).or_throw();
    publish(real_fs(), at("two.json"), kTwoNetworks).or_throw();
  }

  static Words replay(const std::string& file, const Words& more) {
    Words words = {"bench", "parallel", "--replay", file, "--steps", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Outcome run_replay(const std::string& file, const Words& more) const {
    return run(replay(file, more));
  }
  nlohmann::json json_of(const std::string& file, Words more) const {
    more.insert(more.end(), {"--json", "-q"});
    const Outcome o = run_replay(file, more);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? nlohmann::json::parse(o.out) : nlohmann::json();
  }
  std::string results() const { return real_fs().read(at("out_dir/results.jsonl")).or_throw(); }
};

TEST_F(BenchParallel, ReplaysSparseGradientsBesideSchedules) {
  const nlohmann::json json =
      json_of("tiny.json", {"--sync", "blocking,sparse:1:0.9,sparse:0:0.5"});
  const nlohmann::json& results = json.at("cells").at(0).at("schedules");
  ASSERT_EQ(results.size(), 3U);
  std::set<std::string> parameters;
  for (const nlohmann::json& r : results) {
    EXPECT_GE(r.at("measured_s").get<double>(), 0.9 * r.at("bound_s").get<double>());
    parameters.insert(r.at("parameters").get<std::string>());
  }
  EXPECT_EQ(parameters.size(), 3U);
  EXPECT_EQ(json.at("summary").at("replays"), 1);
  for (const char* name :
       {"sparse:1", "sparse:1:1", "sparse:17:0.9", "sparse:-1:0.9", "sparse:x:0.9"}) {
    const Outcome o = run_replay("tiny.json", {"--sync", name});
    EXPECT_EQ(o.code, 2) << name;
    EXPECT_THAT(o.err, HasSubstr("as sparse:1:0.99")) << name;
  }
}

TEST_F(BenchParallel, EverySchedulesStepsAreTimedAndGiveTheSameParameters) {
  const nlohmann::json j =
      json_of("tiny.json", {"--rho", "0.75", "--latency", "1e-4", "--scale", "2", "--stretch",
                            "1.5", "--shards", "4", "--ranks", "3"});
  EXPECT_EQ(j.at("kind"), "replay");
  ASSERT_EQ(j.at("cells").size(), 1u);
  const nlohmann::json& cell = j.at("cells")[0];
  EXPECT_EQ(cell.at("settings").at("network"), "tiny");
  EXPECT_EQ(cell.at("settings").at("ranks"), 3);
  EXPECT_EQ(cell.at("settings").at("shards"), 4);
  EXPECT_EQ(cell.at("settings").at("steps"), 2);
  EXPECT_EQ(cell.at("settings").at("scale"), 2);
  EXPECT_EQ(cell.at("settings").at("stretch"), 1.5);
  EXPECT_EQ(cell.at("settings").at("latency_s"), 1e-4);
  ASSERT_EQ(cell.at("schedules").size(), schedules().size());
  std::set<std::string> parameters, names;
  for (const nlohmann::json& s : cell.at("schedules")) {
    names.insert(s.at("schedule"));
    parameters.insert(s.at("parameters"));
    // Eight milliseconds of layers, half as long again; of two steps one may begin late.
    EXPECT_GT(s.at("measured_s"), 0.006) << s;
    EXPECT_GE(s.at("predicted_s"), 0.012) << s;
    EXPECT_GE(s.at("bound_s"), 0.012) << s;
    EXPECT_GE(s.at("plus_minus_s"), 0) << s;
    EXPECT_GT(s.at("exposed_s"), 0) << s;
  }
  for (const NamedSchedule& s : schedules()) EXPECT_TRUE(names.contains(std::string(s.name)));
  EXPECT_EQ(parameters.size(), 1u);
  EXPECT_EQ(j.at("summary").at("replays"), schedules().size());
  // So do two ranks.
  const nlohmann::json two = json_of("tiny.json", {"--rho", "0.75", "--scale", "2", "--stretch",
                                                   "1", "--shards", "4", "--sync", "wfbp"});
  EXPECT_EQ(two.at("cells")[0].at("schedules")[0].at("parameters"), *parameters.begin());
  const nlohmann::json other =
      json_of("tiny.json", {"--rho", "0.75", "--scale", "2", "--stretch", "1", "--shards", "4",
                            "--sync", "wfbp", "--seed", "1"});
  EXPECT_NE(other.at("cells")[0].at("schedules")[0].at("parameters"), *parameters.begin());
}

TEST_F(BenchParallel, ALinkThatWasMeasuredWithoutATermForBytesIsUnlimited) {
  CostProfile costs = load_cost_profile(real_fs(), at("tiny.json"));
  costs.all_reduce.beta_s_per_byte = 0;
  publish(real_fs(), at("fast.json"), to_json(costs)).or_throw();
  const nlohmann::json cell = json_of("fast.json", {"--sync", "wfbp"}).at("cells")[0];
  EXPECT_EQ(cell.at("settings").at("link_bytes_per_s"), 0);
  EXPECT_EQ(cell.at("settings").at("latency_s"), 1e-4);
  EXPECT_GT(cell.at("schedules")[0].at("measured_s"), 0);
}

TEST_F(BenchParallel, ATableSaysWhatIsSleptAndWhatIsReal) {
  const Outcome o = run_replay(
      "two.json#two", {"--link", "100M", "--sync", "auto,ddp", "--scale", "1", "--stretch", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("replay of two: 2 ranks, 2 shards"), HasSubstr("slept: forward"),
                    HasSubstr("12.5 MB/s"), HasSubstr("\nauto "), HasSubstr("\nddp "),
                    HasSubstr("parameters are equal"), HasSubstr("median_error")));
}

TEST_F(BenchParallel, RanksMayBeStartedApartAndHaveToBeOfTheSameReplay) {
  const auto apart = [&](const Words& second) {
    const std::string rendezvous = real_net().listen("127.0.0.1:0").or_throw()->address();
    const auto words = [&](const std::string& rank, const Words& more) {
      Words all = replay("two.json#one", {"--sync", "dear", "--scale", "1", "--stretch", "1",
                                          "--rank", rank, "--rendezvous", rendezvous});
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const pid_t one = start_as("rank1", words("1", second));
    const pid_t zero = start_as("rank0", words("0", {}));
    return std::pair(zero, one);
  };
  const auto [zero, one] = apart({});
  EXPECT_THAT(end_of(zero, "rank0").out, HasSubstr("replay of one"));
  EXPECT_EQ(end_of(one, "rank1").code, 0);
  const auto [lonely, other] = apart({"--seed", "7"});
  const Outcome refused = end_of(other, "rank1");
  kill(lonely, SIGKILL);
  end_of(lonely, "rank0");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("replay is"));
}

TEST_F(BenchParallel, AMatrixThatIsKilledGoesOnWithWhatIsMissing) {
  const Words words =
      replay("two.json", {"--ranks", "2,3", "--rho", "0.5,1", "--sync", "blocking,auto", "--scale",
                          "1", "--stretch", "1", "--matrix", "-o", "out_dir", "-q", "--json"});
  const pid_t first = start_as("first", words);
  const auto lines = [&] {
    const std::string text = results();
    return std::ranges::count(text, '\n');
  };
  while (!real_fs().exists(at("out_dir/results.jsonl")) || lines() < 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(first, SIGKILL);
  end_of(first, "first");
  const std::string before = results();
  {
    const auto file = real_fs().open(at("out_dir/results.jsonl"), Fs::Mode::kAppend).or_throw();
    const std::string half = R"({"settings": {"network)";
    file->append(std::as_bytes(std::span(half.data(), half.size()))).or_throw();
  }
  const Outcome rest = run(words);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("the last line is damaged, and dropped"));
  EXPECT_EQ(lines(), 2 * 2 * 2 * 2);
  EXPECT_TRUE(results().starts_with(before));
  const nlohmann::json j = nlohmann::json::parse(rest.out);
  EXPECT_EQ(j.at("cells").size(), 8u);
  EXPECT_EQ(j.at("summary").at("replays"), 16);

  const std::string all = results();
  const Outcome again = run(words);
  EXPECT_EQ(again.out, rest.out);  // nothing is measured anew
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(results(), all);
}

TEST_F(BenchParallel, ADamagedLineThatIsNotTheLastIsAnError) {
  std::filesystem::create_directories(at("out_dir"));
  publish(real_fs(), at("out_dir/results.jsonl"), "{}\n{}\n").or_throw();
  const Outcome o = run_replay("two.json", {"--matrix", "-o", "out_dir"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("results.jsonl: line 1 is no result"));
}

TEST_F(BenchParallel, WhatMakesNoSenseIsRefused) {
  publish(real_fs(), at("broken.json"), "{\"networks\": ").or_throw();
  const auto refused = [&](int code, const std::string& file, const Words& more) {
    const Outcome o = run_replay(file, more);
    EXPECT_EQ(o.code, code) << o.out;
    return o.err;
  };
  EXPECT_THAT(refused(2, "two.json#three", {}), HasSubstr("there are one, two"));
  EXPECT_THAT(refused(2, "two.json", {}), HasSubstr("--matrix"));
  EXPECT_THAT(refused(1, "broken.json#x", {}), HasSubstr("broken.json"));
  EXPECT_THAT(refused(1, "absent.json", {}), HasSubstr("absent.json"));
  EXPECT_THAT(refused(2, "tiny.json", {"--scale", "-1"}), HasSubstr("--scale -1"));
  EXPECT_THAT(refused(2, "tiny.json", {"--stretch", "0"}), HasSubstr("--stretch 0"));
  EXPECT_THAT(refused(2, "tiny.json", {"--ranks", "65"}), HasSubstr("--ranks 65"));
  EXPECT_THAT(refused(2, "tiny.json", {"--ranks", "1"}), HasSubstr("2 ranks at least"));
  EXPECT_THAT(refused(2, "tiny.json", {"--ranks", "2,3"}), HasSubstr("--matrix"));
  EXPECT_THAT(refused(2, "tiny.json", {"--shards", "1"}), HasSubstr("--shards 1: 2"));
  EXPECT_THAT(refused(2, "tiny.json", {"--shards", "257"}), HasSubstr("to 256"));
  EXPECT_THAT(refused(2, "tiny.json", {"--steps", "0"}), HasSubstr("--steps 0"));
  EXPECT_THAT(refused(2, "tiny.json", {"--sync", "dear,no"}), HasSubstr("no schedule 'no'"));
  EXPECT_THAT(refused(2, "tiny.json", {"--rho", "0"}), HasSubstr("--rho 0"));
  EXPECT_THAT(refused(1, "tiny.json", {"--rho", "0.001"}), HasSubstr("two latencies"));
  EXPECT_THAT(refused(2, "tiny.json", {"--rho", "1", "--link", "1G"}), HasSubstr("give one"));
  EXPECT_THAT(refused(2, "tiny.json", {"--link", "fast"}), HasSubstr("--link fast"));
  EXPECT_THAT(refused(2, "tiny.json", {"--latency", "-1"}), HasSubstr("--latency -1"));
  EXPECT_THAT(refused(2, "tiny.json", {"--matrix"}), HasSubstr("belong together"));
  EXPECT_THAT(refused(2, "tiny.json", {"-o", "x"}), HasSubstr("belong together"));
  EXPECT_THAT(refused(2, "tiny.json", {"--rank", "1"}), HasSubstr("belong together"));
  EXPECT_THAT(refused(2, "tiny.json", {"--rank", "2", "--rendezvous", "localhost:1"}),
              HasSubstr("--rank 2: 0 to 1"));
}

}  // namespace
}  // namespace ndtrain
