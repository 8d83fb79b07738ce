// Each bench once, as small as it goes: that it ends, and counts what it was given.
#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

class BenchProgram : public testing_cli::ProgramTest {
 protected:
  nlohmann::json bench(std::vector<std::string> words) const {
    const bool has_threads = words[0] != "labels";
    words.insert(words.begin(), "bench");
    words.emplace_back("--json");
    if (has_threads) words.insert(words.end(), {"-j", "1"});
    const testing_cli::Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  void build_model() const {
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
};

TEST_F(BenchProgram, IntakeTakesEveryRow) {
  const nlohmann::json j =
      bench({"intake", "--photos", "500", "--row-bytes", "64", "--state", "state"});
  EXPECT_EQ(j.at("photos"), 500);
  EXPECT_EQ(j.at("row_bytes"), 64);
  EXPECT_GT(j.at("photos_per_s"), 0);
}

TEST_F(BenchProgram, LabelsGetInAndOut) {
  const nlohmann::json j =
      bench({"labels", "--db", "sqlite:l.db", "--photos", "200", "--classes", "5"});
  EXPECT_EQ(j.at("photos"), 200);
  EXPECT_GT(j.at("first_labels_per_s"), 0);
  EXPECT_GT(j.at("by_label_query_ms"), 0);
  EXPECT_GT(j.at("watch_ms"), 0);
}

TEST_F(BenchProgram, CollectivesTimeOrderedSumsOverTcp) {
  const nlohmann::json j =
      bench({"collectives", "--ranks", "2", "--megabytes", "1", "--rounds", "3"});
  EXPECT_EQ(j.at("over"), "TCP");
  EXPECT_EQ(j.at("shards"), 2);
  EXPECT_GT(j.at("sizes").at(0).at("ordered").at("median_ms"), 0);
  EXPECT_FALSE(j.at("sizes").at(0).contains("native"));
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "collectives"});
    const testing_cli::Outcome o = run(words);
    EXPECT_EQ(o.code, 2) << o.err;
    return o.err;
  };
  EXPECT_THAT(refused({}), ::testing::HasSubstr("2 ranks at least; --ranks 2, or mpirun -n 2"));
  EXPECT_THAT(refused({"--ranks", "2", "--shards", "1"}), ::testing::HasSubstr("--shards 1: 2 to"));
  EXPECT_THAT(refused({"--ranks", "2", "--rounds", "0"}), ::testing::HasSubstr("--rounds 0: 1 to"));
}

TEST_F(BenchProgram, SparseTimesEveryCompressorThatIsAskedFor) {
  const nlohmann::json all =
      bench({"sparse", "--elements", "5000", "--rounds", "2", "--scan", "rotate"});
  EXPECT_EQ(all.at("elements"), 5000);
  EXPECT_EQ(all.at("taken"), 50);
  EXPECT_EQ(all.at("compressors").size(), 7u);
  const nlohmann::json two =
      bench({"sparse", "--elements", "5000", "--rounds", "1", "--drop", "0.5", "--compressor",
             "topk,threshold-v16", "--optimizer", "adamw"});
  EXPECT_EQ(two.at("optimizers").size(), 1u);
  EXPECT_GT(two.at("optimizers").at(0).at("elements_per_s"), 0);
  EXPECT_EQ(two.at("taken"), 2500);
  EXPECT_EQ(two.at("compressors").at(1).at("compressor"), "threshold-v16");
  for (const nlohmann::json& one : all.at("compressors")) EXPECT_GT(one.at("slowest_gb_per_s"), 0);
  for (const auto& [flag, value, says] :
       std::vector<std::array<std::string, 3>>{{"--drop", "1", "--drop 1: 0 to below 1"},
                                               {"--elements", "0", "--elements 0: 1 to"},
                                               {"--elements", "1073741825", ": 1 to 1073741824"},
                                               {"--rounds", "0", "--rounds 0: 1 to"},
                                               {"--optimizer", "lion", "unknown optimizer 'lion'"},
                                               {"--compressor", "best", "--compressor best: "}}) {
    const testing_cli::Outcome o = run({"bench", "sparse", flag, value});
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, ::testing::HasSubstr(says));
  }
}

TEST_F(BenchProgram, ForwardAndTrainTimeAtLeastOneStep) {
  build_model();
  const nlohmann::json forward = bench({"forward", "-m", "m.onnx", "-b", "2", "--seconds", "0"});
  EXPECT_EQ(forward.at("batch"), 2);
  EXPECT_GT(forward.at("runs"), 0);
  const nlohmann::json train = bench({"train", "-m", "m.onnx", "-b", "2", "--seconds", "0"});
  EXPECT_EQ(train.at("batch"), 2);
  EXPECT_GT(train.at("steps"), 0);
  EXPECT_GT(train.at("trained_parameters"), 0);
}

TEST_F(BenchProgram, LayersNamesTheFastestBackendOfEach) {
  build_model();
  const nlohmann::json j = bench({"layers", "-m", "m.onnx", "-b", "1", "--seconds", "0.001"});
  ASSERT_GE(j.at("layers").size(), 4U);
  for (const nlohmann::json& layer : j.at("layers")) {
    EXPECT_GT(layer.at("ms"), 0) << layer;
    EXPECT_FALSE(layer.at("fastest").get<std::string>().empty()) << layer;
  }
}

TEST_F(BenchProgram, PipelineAndDecodeReadThePhotos) {
  build_model();
  draw_photos(4);
  const nlohmann::json pipeline =
      bench({"pipeline", "photos", "-m", "m.onnx", "-b", "4", "--photos", "8", "--rounds", "1"});
  ASSERT_EQ(pipeline.at("rounds").size(), 1U);
  EXPECT_GT(pipeline.at("images_per_s"), 0);
  const nlohmann::json decode = bench({"decode", "photos", "--photos", "8", "--img-size", "32",
                                       "--resize", "36", "--seconds", "0"});
  EXPECT_EQ(decode.at("photos"), 4);
  EXPECT_EQ(decode.at("unreadable"), 0);
}

}  // namespace
}  // namespace ndtrain
