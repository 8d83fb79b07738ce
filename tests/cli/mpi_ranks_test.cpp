// `train` by ranks that mpirun starts, and what is refused of --comm.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/program_fixture.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using support::LaunchOutcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

constexpr const char* kTrain =
    " train photos -m m.onnx -b 12 --freeze none --cache cache -j 1 --shards 2 ";

class LaunchedRanks : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(40);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
  std::string model(const std::string& run_directory) const {
    return real_fs().read(at(run_directory + "/model.onnx")).or_throw();
  }
  LaunchOutcome launch(const std::string& words) const {
    return support::mpirun(words, root_.path());
  }
  LaunchOutcome train(int ranks, const std::string& words) const {
    return launch("-n " + std::to_string(ranks) + " " + support::program_path() + kTrain + words);
  }
  Outcome train_alone(const std::string& words, const std::string& environment = "") const {
    std::ofstream(at("alone.sh")) << "exec env " << environment << " NDTRAIN_CACHE=cache "
                                  << support::program_path() << kTrain << words << "\n";
    const int status =
        std::system(("cd '" + root_.path() + "' && sh alone.sh > out 2> err < /dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, real_fs().read(at("out")).or_throw(),
            real_fs().read(at("err")).or_throw()};
  }
  // Two ranks, the second of which gets a signal when the first has a checkpoint. Both are one
  // program to mpirun: that of Debian 13 crashes where it is given two (open-mpi/ompi#13303).
  LaunchOutcome train_and_signal(const std::string& words, int signal) const {
    std::ofstream(at("rank.sh")) << "test \"$OMPI_COMM_WORLD_RANK\" = 0 || echo $$ > pid\n"
                                 << "exec " << support::program_path() << kTrain << words << "\n";
    LaunchOutcome outcome;
    std::jthread mpirun([&] { outcome = launch("-n 2 sh rank.sh"); });
    for (int i = 0; i < 20'000 && !real_fs().exists(at("run/last.safetensors")); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_t second = 0;
    std::ifstream(at("pid")) >> second;
    if (second > 0) kill(second, signal);
    mpirun.join();
    return outcome;
  }
};

std::string why_no_mpi() {
  return NDT_HAS_MPI ? support::why_no_mpirun() : "the mpi plugin is not built here";
}

TEST_F(LaunchedRanks, NeedNoFlagsAndGiveTheBytesOfOneProcess) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(train_alone("-o one -e 2").code, 0);
  const LaunchOutcome o = train(2, "-o two -e 2");
  ASSERT_EQ(o.code, 0) << o.said;
  EXPECT_THAT(o.said, HasSubstr("2 ranks, which mpirun has started, talk by Open MPI"));
  EXPECT_TRUE(model("two") == model("one"));
  const LaunchOutcome named = train(2, "-o again -e 2 --ranks 2 --comm mpi --sync dear -q");
  ASSERT_EQ(named.code, 0) << named.said;
  EXPECT_TRUE(model("again") == model("one"));
  const Outcome tcp = train_alone("-o tcp -e 2 --ranks 2 --comm tcp");
  ASSERT_EQ(tcp.code, 0) << tcp.err;
  EXPECT_THAT(tcp.err, HasSubstr("2 ranks talk by TCP"));
  EXPECT_TRUE(model("tcp") == model("one"));
}

// From the first epoch on, or from the second.
TEST_F(LaunchedRanks, AreStagesTooAndSwitchToThem) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const std::string by_one = "train photos -m m.onnx -b 12 --freeze none --cache cache -j 1 ",
                    staged = "-n 2 " + support::program_path() + " " + by_one +
                             "--device cpu -e 2 --micro-batches 2 --parallel ";
  ASSERT_EQ(train_alone("-o one -e 2 --shards 1 --accumulate 2 --deterministic --device cpu").code,
            0);
  LaunchOutcome o = launch(staged + "pipeline -o stages");
  ASSERT_EQ(o.code, 0) << o.said;
  EXPECT_THAT(o.said, AllOf(HasSubstr("2 ranks, which mpirun has started"),
                            HasSubstr("2 stages on 2 ranks")));
  EXPECT_TRUE(model("stages") == model("one"));
  const std::string switched = "--device cpu -e 2 --micro-batches 2 --parallel dp:1,pipeline ";
  ASSERT_EQ(train_alone("-o tcp --ranks 2 --comm tcp " + switched).code, 0);
  o = launch(staged + "dp:1,pipeline --shards 2 -o switched");
  ASSERT_EQ(o.code, 0) << o.said;
  EXPECT_THAT(o.said, HasSubstr("from epoch 2 on ranks are stages"));
  EXPECT_TRUE(model("switched") == model("tcp"));
}

// Sums in another order: near the others, and the same on all ranks whatever the schedule is.
TEST_F(LaunchedRanks, SumByMpisOwnCollectivesWhereThatIsAskedFor) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const auto val_loss = [](const LaunchOutcome& o) {
    const size_t at = o.said.find("val_loss");
    return at == std::string::npos ? -1.0 : std::stod(o.said.substr(at + 8));
  };
  const LaunchOutcome ordered = train(2, "-o ordered -e 2");
  ASSERT_EQ(ordered.code, 0) << ordered.said;
  for (const std::string sync : {"blocking", "wfbp", "ddp", "rb", "dear"}) {
    const LaunchOutcome o = train(2, "-o " + sync + " -e 2 --collectives native --sync " + sync);
    ASSERT_EQ(o.code, 0) << sync << ": " << o.said;
    EXPECT_THAT(o.said, HasSubstr("another number of ranks gives other bytes"));
    EXPECT_NEAR(val_loss(o), val_loss(ordered), 1e-3) << sync;
    EXPECT_THAT(real_fs().read(at(sync + "/args.toml")).or_throw(),
                HasSubstr("collectives = \"native\""));
  }
  EXPECT_THAT(real_fs().read(at("ordered/args.toml")).or_throw(),
              ::testing::Not(HasSubstr("collectives")));
}

TEST_F(LaunchedRanks, WhereOneIsKilledAllEndAndTheRunGoesOnWithTheSameBytes) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(train_alone("-o whole -e 30").code, 0);
  const LaunchOutcome o = train_and_signal("-o run -e 30", SIGKILL);
  EXPECT_NE(o.code, 0) << o.said;
  EXPECT_NE(o.code, 124) << "mpirun did not end: " << o.said;
  const LaunchOutcome rest = train(2, "-o run -e 30 --resume");
  ASSERT_EQ(rest.code, 0) << rest.said;
  EXPECT_TRUE(model("run") == model("whole"));
}

TEST_F(LaunchedRanks, OneThatIsSilentIsNamedAndTheRunCanBeResumed) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const LaunchOutcome o = train_and_signal("-o run -e 200 --rank-timeout 3", SIGSTOP);
  EXPECT_EQ(o.code, 4) << o.said;
  EXPECT_THAT(o.said, AllOf(HasSubstr("lacks rank 1"), HasSubstr("silent for 3000 ms"),
                            HasSubstr("--resume goes on")));
}

TEST_F(LaunchedRanks, ThatDisagreeAreRefused) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const LaunchOutcome ranks = train(2, "-o run --ranks 3");
  EXPECT_EQ(ranks.code, 2) << ranks.said;
  EXPECT_THAT(ranks.said, HasSubstr("--ranks 3, but mpirun has started 2"));
  const LaunchOutcome tcp = train(2, "-o run --comm tcp");
  EXPECT_EQ(tcp.code, 2) << tcp.said;
  EXPECT_THAT(tcp.said, HasSubstr("each would train for itself"));
  const LaunchOutcome shards = launch("-n 3 " + support::program_path() + kTrain + "-o run");
  EXPECT_EQ(shards.code, 2) << shards.said;
  EXPECT_THAT(shards.said, HasSubstr("--ranks 3 but 2 shards"));
  EXPECT_FALSE(real_fs().exists(at("run")));
}

TEST_F(LaunchedRanks, BySrunNeedNoFlagsEither) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  if (const std::string why = support::why_no_srun(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(train_alone("-o one -e 2").code, 0);
  const LaunchOutcome o = support::srun(
      "-n 2 --mpi=pmix " + support::program_path() + kTrain + "-o two -e 2", root_.path());
  ASSERT_EQ(o.code, 0) << o.said;
  EXPECT_THAT(o.said, HasSubstr("2 ranks, which srun has started, talk by Open MPI"));
  EXPECT_TRUE(model("one") == model("two"));
}

// As srun does that MPI knows nothing of.
TEST_F(LaunchedRanks, WhomMpiDoesNotKnowAreTold) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const Outcome o = train_alone("-o run", "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("srun has started 2 processes, but MPI knows of 1"),
                           HasSubstr("srun --mpi=pmix")));
}

TEST_F(LaunchedRanks, WaysToTalkThatThereAreNotAreUsageErrors) {
  const auto refused = [&](const std::string& words) {
    const Outcome o = train_alone("-o run --ranks 2 " + words);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_FALSE(real_fs().exists(at("run")));
    return o.err;
  };
  EXPECT_THAT(refused("--comm nccl"), HasSubstr("add --collectives native"));
  EXPECT_THAT(refused("--comm gloo"), HasSubstr("there are auto, tcp, mpi and nccl"));
  EXPECT_THAT(refused("--collectives native --device cpu"),
              HasSubstr("TCP has none; mpirun -n 2 ndtrain"));
  EXPECT_THAT(refused("--collectives native --wire-dtype bf16"), HasSubstr("adds up f32"));
  EXPECT_THAT(refused("--collectives mine"), HasSubstr("there are ordered and native"));
  EXPECT_THAT(refused("--comm mpi"), HasSubstr("mpirun -n 2 ndtrain train"));
  EXPECT_THAT(refused("--comm mpi --rank 1 --rendezvous localhost:1"),
              HasSubstr("leave --rank and --rendezvous away"));
}

TEST_F(LaunchedRanks, WithoutThePluginAreToldWhatLacks) {
  const Outcome o = train_alone(
      "-o run", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 NDTRAIN_BACKEND_PATH=/nowhere");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("no communication plugin 'mpi'"), HasSubstr("libndt_mpi.so"),
                           HasSubstr("looked in /nowhere")));
}

TEST_F(LaunchedRanks, BenchComparesOrderedSumsWithMpisOwn) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const LaunchOutcome o =
      launch("-n 2 " + support::program_path() +
             " bench collectives --megabytes 1,2 --shards 5 --rounds 2 --json -q");
  ASSERT_EQ(o.code, 0) << o.said;
  const size_t begin = std::min(o.said.find('{'), o.said.size());
  const nlohmann::json j =
      nlohmann::json::parse(o.said.substr(begin, o.said.rfind('}') - begin + 1));
  EXPECT_THAT(j.at("over"), HasSubstr("MPI"));
  EXPECT_EQ(j.at("shards"), 5);
  ASSERT_EQ(j.at("sizes").size(), 2);
  for (const auto& size : j.at("sizes")) {
    EXPECT_GT(size.at("ordered").at("median_ms"), 0);
    EXPECT_NEAR(size.at("ratio").get<double>(),
                size.at("native").at("median_ms").get<double>() /
                    size.at("ordered").at("median_ms").get<double>(),
                1e-9);
  }
}

TEST_F(LaunchedRanks, BenchLeavesMpisOwnSumsOutWhereItIsAskedTo) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const LaunchOutcome o =
      launch("-n 2 " + support::program_path() +
             " bench collectives --megabytes 3 --rounds 1 --ordered-only --json -q");
  ASSERT_EQ(o.code, 0) << o.said;
  EXPECT_THAT(o.said, HasSubstr("\"ordered\""));
  EXPECT_THAT(o.said, ::testing::Not(HasSubstr("\"native\"")));
}

}  // namespace
}  // namespace ndtrain
