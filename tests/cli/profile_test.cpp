// ndtrain profile as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class ProfileProgram : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "3", "-o", "m.onnx"}).code, 0);
  }

  // Of few rows and steps, so that it is soon done.
  Outcome profile(std::vector<std::string> words) const {
    words.insert(words.begin(), {"profile", "-b", "4", "--steps", "2"});
    return run(words);
  }
  nlohmann::json measured(std::vector<std::string> words) const {
    words.insert(words.begin(), "--json");
    const Outcome o = profile(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  }
  ModelProfile read(const std::string& name) const {
    return load_model_profile(real_fs(), at(name));
  }
};

TEST_F(ProfileProgram, MeasuresWhatThePlannerPlansFrom) {
  const Outcome o = profile({"-m", "m.onnx", "-o", "profile.json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("Conv"));
  EXPECT_THAT(o.out, HasSubstr("weight_gradient_ms"));
  EXPECT_THAT(o.err, HasSubstr("no DATA: loading is said to take nothing"));
  const ModelProfile p = read("profile.json");
  EXPECT_EQ(p.model, "m.onnx");
  EXPECT_EQ(p.batch, 4);
  EXPECT_THAT(p.source, HasSubstr("2 steps"));
  EXPECT_EQ(p.load_s(), 0);
  double parameters = 0;
  for (const NodeProfile& n : p.nodes) parameters += n.parameter_bytes;
  EXPECT_EQ(parameters, 4 * 23891);  // of tinynet, with three classes

  publish(real_fs(), at("network.json"),
          R"({"allreduce_bandwidths": [1000000], "p2p_bandwidths": [1000000000],
              "fully_connect": [false]})")
      .or_throw();
  const Outcome planned = run({"plan", "train", "--profile", "profile.json", "-n", "2", "--network",
                               "network.json", "-o", "plan.json", "--preset", "pipeline"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const PipelinePlan plan = load_pipeline_plan(real_fs(), at("plan.json"));
  EXPECT_EQ(plan.model, "m.onnx");
  EXPECT_EQ(plan.stages.size(), 2u);
}

TEST_F(ProfileProgram, WritesWhatTheFilesNameSays) {
  for (const auto& [name, begins] :
       {std::pair("p.json", "{"), std::pair("p.dot", "digraph {"),
        std::pair("p.csv", "node,description,"), std::pair("p.txt", "input -- Input0 -- ")}) {
    const nlohmann::json json = measured({"-m", "m.onnx", "-o", name});
    EXPECT_EQ(json.at("file"), name);
    EXPECT_THAT(real_fs().read(at(name)).or_throw(), ::testing::StartsWith(begins));
  }
  EXPECT_EQ(read("p.txt").nodes.size(), read("p.json").nodes.size());
}

TEST_F(ProfileProgram, WithPhotosLoadingIsMeasured) {
  draw_photos(3);  // fewer than a step has
  const nlohmann::json json = measured({"photos", "-m", "m.onnx", "-o", "p.json", "--fast-decode"});
  EXPECT_GT(json.at("load_ms"), 0);
  EXPECT_GT(read("p.json").load_s(), 0);
  EXPECT_TRUE(measured({"-m", "m.onnx", "-o", "p.json"}).at("load_ms").is_null());
}

TEST_F(ProfileProgram, FlagsSayWhatIsTrainedAndHow) {
  const nlohmann::json all = measured({"-m", "m.onnx", "-o", "p.json"});
  EXPECT_EQ(read("p.json").moment_bytes_per_byte, 2);
  const nlohmann::json some =
      measured({"-m", "m.onnx", "-o", "p.json", "--freeze", "layer2", "--opt", "sgd"});
  EXPECT_EQ(read("p.json").moment_bytes_per_byte, 1);
  EXPECT_LT(some.at("parameter_bytes"), all.at("parameter_bytes"));
  EXPECT_GT(some.at("frozen_bytes"), all.at("frozen_bytes"));
  EXPECT_EQ(measured({"-m", "m.onnx", "-o", "p.json", "--compute", "f32"}).at("nodes"),
            all.at("nodes"));
}

TEST_F(ProfileProgram, TakesAnExportOfAnotherProgram) {
  const std::string model = support::shared_path("/models/squeezenet1_1.onnx");
  if (!real_fs().exists(model)) GTEST_SKIP() << "no " << model;
  const Outcome o =
      run({"profile", "--json", "-m", model, "-b", "2", "--steps", "1", "-o", "s.json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json.at("parameter_bytes"), 4 * 1235496);
  EXPECT_GT(json.at("weight_gradient_ms"), 0);
}

TEST_F(ProfileProgram, SaysWhatIsWrongWithWhatItWasGiven) {
  const auto refused = [&](std::vector<std::string> words, int code, const std::string& what) {
    words.insert(words.begin(), "profile");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  const auto wrong = [&](std::vector<std::string> words, int code, const std::string& what) {
    words.insert(words.begin(), {"-m", "m.onnx", "-o", "p.json"});
    refused(words, code, what);
  };
  refused({}, 2, "--out is missing");
  refused({"-o", "p.json"}, 2, "--model is missing");
  refused({"-m", "m.onnx", "-o", "profile"}, 2, "ends in .json, .txt, .dot or .csv");
  wrong({"-b", "0"}, 2, "--batch 0");
  wrong({"--steps", "0"}, 2, "--steps 0: 1 to 100000");
  wrong({"--steps", "100001"}, 2, "--steps 100001");
  wrong({"--opt", "fast"}, 2, "fast");
  wrong({"--compute", "f64"}, 2, "--compute f64");
  wrong({"--freeze", "nothing-so-called"}, 1, "nothing-so-called");
  wrong({"nowhere"}, 1, "nowhere");
  std::filesystem::create_directories(at("empty"));
  wrong({"empty"}, 1, "empty: there is no photo that can be read");
  refused({"-m", "none.onnx", "-o", "p.json"}, 1, "none.onnx");
  EXPECT_FALSE(real_fs().exists(at("p.json")));
}

}  // namespace
}  // namespace ndtrain
