// `train --comm nccl` by processes that have GPUs and NCCL, as the fakes have them, and what is
// refused.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "framework/core/net.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

class NcclProgram : public testing_cli::ProgramTest {
 protected:
  NcclProgram() : path_(std::getenv("NDTRAIN_BACKEND_PATH")) {}
  ~NcclProgram() override {
    setenv("NDTRAIN_BACKEND_PATH", path_.c_str(), 1);
    unsetenv("NDT_FAKE_GPUS");
    unsetenv("NDT_FAKE_LATE");
  }
  void SetUp() override {
    setenv("NDT_FAKE_GPUS", "2", 1);
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }

  Outcome train(const std::string& run_directory, const Words& more) const {
    Words words = {"train", "photos", "-m",       "m.onnx", "-o",       run_directory,
                   "-b",    "8",      "-e",       "1",      "--cache",  "cache",
                   "-j",    "1",      "--device", "cuda",   "--freeze", "none"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string model(const std::string& run_directory) const {
    return real_fs().read(at(run_directory + "/model.onnx")).or_throw();
  }

 private:
  const std::string path_;
};

const Words kByNccl = {"--ranks", "2", "--comm", "nccl", "--collectives", "native"};

Words by_nccl(const Words& more) {
  Words all = kByNccl;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(NcclProgram, TwoRanksHaveTheBytesOfOneGpuWithTwoShards) {
  const Outcome one = train("one", {"--shards", "2"});
  ASSERT_EQ(one.code, 0) << one.err;
  setenv("NDT_FAKE_LATE", "7", 1);
  const Outcome two = train("two", kByNccl);
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.err, AllOf(HasSubstr("2 ranks add up by NCCL 2.28.9"),
                             HasSubstr("another number of ranks gives other bytes")));
  EXPECT_EQ(model("one"), model("two"));
  const Outcome resumed = train("two", by_nccl({"--resume", "-e", "2", "--sync", "dear"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(NcclProgram, AutoIsNcclWhereNativeSumsAreAskedForOnGpus) {
  const Outcome o = train("run", {"--ranks", "2", "--collectives", "native"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("2 ranks add up by NCCL"));
}

TEST_F(NcclProgram, TwoRanksOnOneGpuAreRefusedByName) {
  setenv("NDT_FAKE_GPUS", "1", 1);
  const Outcome o = train("run", kByNccl);
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("ranks 0 and 1 have one device, GPU-01010101-"),
                           HasSubstr("NCCL needs one for each rank")));
  EXPECT_FALSE(real_fs().exists(at("run")));
}

TEST_F(NcclProgram, WithoutTheLibraryOrThePluginIsToldWhatLacks) {
  const std::string no_plugin =
      support::build_path("/tests/cuda/plugins:") + support::build_path("/tests/nccl/cpu_alone");
  const std::string no_library = support::build_path("/tests/nccl/without_library:") + no_plugin;
  setenv("NDTRAIN_BACKEND_PATH", no_library.c_str(), 1);
  const Outcome library = train("run", kByNccl);
  EXPECT_EQ(library.code, 1);
  EXPECT_THAT(library.err,
              AllOf(HasSubstr("--comm nccl: no communication plugin 'nccl' was found"),
                    HasSubstr("libndt_fake_nccl.so: cannot open"), HasSubstr("LD_LIBRARY_PATH")));
  setenv("NDTRAIN_BACKEND_PATH", no_plugin.c_str(), 1);
  const Outcome plugin = train("run", kByNccl);
  EXPECT_EQ(plugin.code, 1);
  EXPECT_THAT(plugin.err, AllOf(HasSubstr("libndt_nccl.so"), HasSubstr("looked in")));
  EXPECT_FALSE(real_fs().exists(at("run")));
}

TEST_F(NcclProgram, OnADeviceThatIsNoGpuIsRefused) {
  Words words = by_nccl({"--device", "cpu"});
  const Outcome o = train("run", words);
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("its device is cpu, and NCCL is between GPUs: --device cuda"));
  const Outcome automatic =
      train("run", {"--device", "cpu", "--ranks", "2", "--collectives", "native"});
  EXPECT_EQ(automatic.code, 2);
  EXPECT_THAT(automatic.err, AllOf(HasSubstr("TCP has none"), Not(HasSubstr("NCCL"))));
}

TEST_F(NcclProgram, WhatDoesNotGoTogetherIsAUsageError) {
  const auto refused = [&](const Words& words) {
    const Outcome o = train("run", words);
    EXPECT_EQ(o.code, 2) << o.err;
    return o.err;
  };
  EXPECT_THAT(refused({"--ranks", "2", "--comm", "nccl"}), HasSubstr("add --collectives native"));
  EXPECT_THAT(refused({"--comm", "nccl", "--collectives", "native"}),
              HasSubstr("--ranks 2 or more"));
  EXPECT_THAT(refused(by_nccl({"--sync", "pipedap"})), HasSubstr("--sync pipedap: it goes by"));
  EXPECT_THAT(refused(by_nccl({"--on-rank-loss", "regroup"})),
              HasSubstr("by NCCL all ranks end together"));
  EXPECT_THAT(refused(by_nccl({"--wire-dtype", "bf16"})), HasSubstr("a library adds up f32"));
  EXPECT_FALSE(real_fs().exists(at("run")));
}

TEST_F(NcclProgram, ATunerOnAGpuRefusesAJobOfSeveralTunersBeforeAnybodyWorks) {
  const Outcome site =
      run({"up", "site", "--stores", "1", "--port", "0", "--http", "127.0.0.1:0", "--photos",
           "photos", "--labels", "folder", "--device", "cuda", "--json"});
  ASSERT_EQ(site.code, 0) << site.err;
  const auto http = nlohmann::json::parse(site.out).at("http").get<std::string>();
  const Outcome job = run({"job", "submit", "finetune", "-m", "m.onnx", "--freeze", "layer1",
                           "--tuners", "2", "--follow", "--http", http});
  run({"down", "site"});
  EXPECT_EQ(job.code, 1);
  EXPECT_THAT(
      job.out + job.err,
      AllOf(HasSubstr("--sync ddp: several Tuners exchange so in memory of the host"),
            HasSubstr("device is cuda: start it with --device cpu or onednn, or give --sync "
                      "sparse")));
}

// Whatever ranks talk by.
TEST_F(NcclProgram, OverSlowLinksRanksExchangeInMemoryOfTheHost) {
  const Words sparse = {"--ranks", "2", "--sync", "sparse", "--drop", "0.5"};
  const Outcome o = train("sparse", sparse);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(real_fs().exists(at("sparse/model.onnx")));
  Words more = sparse;
  more.insert(more.end(), {"--resume", "-e", "2"});
  const Outcome resumed = train("sparse", more);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Outcome automatic =
      train("auto", {"--ranks", "2", "--sync", "auto", "--allow-lossy", "--comm", "tcp"});
  EXPECT_EQ(automatic.code, 0) << automatic.err;
  EXPECT_THAT(automatic.err, HasSubstr("auto: --sync"));
}

TEST_F(NcclProgram, OrderedSumsOnGpusNameNccl) {
  const Outcome o = train("run", {"--ranks", "2"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("--comm nccl --collectives native"));
}

}  // namespace
}  // namespace ndtrain
