// `model split` and `model verify`: parts that are the whole, outputs that are as recorded.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "framework/core/rng.h"
#include "framework/graph/model.h"
#include "framework/runtime/interpreter.h"
#include "ndp/jobs/model_file.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class ModelVerbs : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "3", "-o", "m.onnx"}).code, 0);
  }
  Tensor output_of(const std::string& model, const Tensor& x) const {
    const Graph g = bind(load_model(real_fs(), at(model)).model, 1);
    return interpret_outputs(g, std::vector{x})[0];
  }
  static Tensor random_photo() {
    Tensor x({DType::kF32, {1, 3, 48, 48}});
    Rng rng(7, "photo");
    for (float& v : x.mutable_as<float>()) v = static_cast<float>(rng.next_uniform()) - .5F;
    return x;
  }
  void write_tensor(const std::string& name, const Tensor& t) const {
    onnx::TensorProto proto;
    proto.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t d : t.shape().dims()) proto.add_dims(d);
    for (const double v : t.to_doubles()) proto.add_float_data(static_cast<float>(v));
    publish(real_fs(), at(name), proto.SerializeAsString()).or_throw();
  }
};

TEST_F(ModelVerbs, SplitWritesTwoPartsThatAreTheWhole) {
  Outcome o = run({"model", "split", "m.onnx", "--freeze", "layer2", "-o", "parts", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json.at("features"), nlohmann::json({"layer2"}));
  const Tensor x = random_photo();
  const Tensor features = output_of(json.at("extractor"), x);
  EXPECT_EQ(features.shape(), (Shape{1, 32, 12, 12}));
  const std::vector<double> whole = output_of("m.onnx", x).to_doubles(),
                            parts = output_of(json.at("head"), features).to_doubles();
  ASSERT_EQ(parts.size(), 3U);
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5);

  o = run({"model", "split", "m.onnx", "--freeze", "none", "-o", "none"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("there is no cut"));
  EXPECT_EQ(run({"model", "split", "m.onnx", "-o", "p", "--feature-dtype", "f64"}).code, 2);
}

TEST_F(ModelVerbs, SplitWritesTheStagesOfAPlan) {
  publish(real_fs(), at("network.json"),
          R"({"allreduce_bandwidths": [1000000], "p2p_bandwidths": [1000000000],
              "fully_connect": [false]})")
      .or_throw();
  ASSERT_EQ(run({"profile", "-m", "m.onnx", "-b", "2", "--steps", "1", "-o", "p.json"}).code, 0);
  ASSERT_EQ(run({"plan", "train", "--profile", "p.json", "-n", "2", "--network", "network.json",
                 "--preset", "pipeline", "-o", "plan.json"})
                .code,
            0);
  Outcome o = run({"model", "split", "m.onnx", "--stages", "plan.json", "-o", "stages", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json stages = nlohmann::json::parse(o.out).at("stages");
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].at("file"), "stages/stage0.onnx");
  EXPECT_EQ(stages[1].at("inputs"), stages[0].at("outputs"));
  const Tensor x = random_photo();
  const Tensor between = output_of("stages/stage0.onnx", x);
  // Where the plan cuts depends on what was fast; a normalisation apart from its convolution rounds
  // in its own way.
  EXPECT_THAT(
      output_of("stages/stage1.onnx", between).to_doubles(),
      ::testing::Pointwise(::testing::DoubleNear(1e-5), output_of("m.onnx", x).to_doubles()));

  o = run({"model", "split", "m.onnx", "--stages", "plan.json", "-o", "s", "--freeze", "layer2"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("is not in this model"));
  EXPECT_EQ(run({"model", "split", "m.onnx", "--stages", "plan.json", "-o", "s", "--feature-dtype",
                 "f16"})
                .code,
            2);
  ASSERT_EQ(run({"model", "build", "alexnet", "--classes", "3", "-o", "a.onnx"}).code, 0);
  o = run({"model", "split", "a.onnx", "--stages", "plan.json", "-o", "s"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("is not in this model"));
}

TEST_F(ModelVerbs, VerifyComparesWithRecordedOutputs) {
  std::filesystem::create_directories(at("data"));
  const Tensor x = random_photo();
  Tensor y = output_of("m.onnx", x);
  write_tensor("data/input_0.pb", x);
  write_tensor("data/output_0.pb", y);
  const auto verify = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"model", "verify", "m.onnx", "--data", "data", "--json"});
    const Outcome o = run(more);
    EXPECT_EQ(nlohmann::json::parse(o.out).at("pass"), o.code == 0) << o.err;
    return o.code;
  };
  EXPECT_EQ(verify({}), 0);
  EXPECT_EQ(verify({"--interpreter", "--rtol", "1e-6"}), 0);
  y.mutable_as<float>()[1] += .01F;
  write_tensor("data/output_0.pb", y);
  EXPECT_EQ(verify({}), 1);
  EXPECT_EQ(verify({"--interpreter"}), 1);
  EXPECT_EQ(verify({"--atol", ".02"}), 0);
  std::filesystem::remove(at("data/output_0.pb"));
  EXPECT_EQ(run({"model", "verify", "m.onnx", "--data", "data"}).code, 1);
}

}  // namespace
}  // namespace ndtrain
