// `model import`: what a foreign file does not say.
#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "framework/onnx/export.h"
#include "models/zoo.h"
#include "ndp/jobs/model_file.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;
using testing_cli::ProgramTest;

class ModelImport : public ProgramTest {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    publish(real_fs(), at(name), bytes).or_throw();
  }

  // A classifier of five classes as an exporter with dynamic axes writes it.
  void write_symbolic(const std::string& name) const {
    onnx::ModelProto m;
    ASSERT_TRUE(m.ParseFromString(export_model(build_model("tinynet", {.classes = 5}))));
    auto& shape = *m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
    shape.mutable_shape()->mutable_dim(2)->set_dim_param("height");
    shape.mutable_shape()->mutable_dim(3)->set_dim_param("width");
    write(name, m.SerializeAsString());
  }

  std::vector<int64_t> dims_of(const std::string& name) const {
    return load_model(real_fs(), at(name)).model.inputs[0].dims;
  }
};

using Dims = std::vector<int64_t>;

TEST_F(ModelImport, ClassNamesThatOccurTwiceAreToldApartAndItIsSaid) {
  ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "4", "-o", "m.onnx"}).code, 0);
  write("names.txt", "crane\nmaillot\ncrane\nmaillot\n");
  const Outcome o = run({"model", "import", "m.onnx", "--classes", "names.txt", "-o", "out.onnx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("names.txt: some class names occur more than once"),
                           HasSubstr("class 2 is called 'crane (2)'"),
                           HasSubstr("class 3 is called 'maillot (2)'")));
  EXPECT_THAT(load_model(real_fs(), at("out.onnx")).classes,
              ::testing::ElementsAre("crane", "maillot", "crane (2)", "maillot (2)"));
  write("few.txt", "crane\n");
  EXPECT_EQ(run({"model", "import", "m.onnx", "--classes", "few.txt", "-o", "no.onnx"}).code, 1);
}

TEST_F(ModelImport, ASymbolicHeightAndWidthAreThoseOfThePreprocessing) {
  write_symbolic("m.onnx");
  Outcome o = run({"model", "import", "m.onnx", "--img-size", "64", "-o", "a.onnx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("crop 64"));
  EXPECT_THAT(o.err, HasSubstr("takes any height and width: those of the crop"));
  EXPECT_EQ(dims_of("a.onnx"), (Dims{kBatch, 3, 64, 64}));
  // Nothing is said: the usual size, as every verb takes it.
  ASSERT_EQ(run({"model", "import", "m.onnx", "-o", "b.onnx"}).code, 0);
  EXPECT_EQ(dims_of("b.onnx"), (Dims{kBatch, 3, 224, 224}));
  o = run({"model", "inspect", "m.onnx"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err,
              AllOf(HasSubstr("assuming"), HasSubstr("crop 224"), HasSubstr("those of the crop")));
}

TEST_F(ModelImport, DimensionsAreGivenByName) {
  write_symbolic("m.onnx");
  Outcome o =
      run({"model", "import", "m.onnx", "--dim", "height=48", "--dim", "width=48", "-o", "a.onnx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(dims_of("a.onnx"), (Dims{kBatch, 3, 48, 48}));
  EXPECT_THAT(o.out, HasSubstr("crop 48"));
  const std::string input = load_model(real_fs(), at("m.onnx")).model.inputs[0].name;
  o = run({"model", "import", "m.onnx", "--dim", input + "[2]=48", "--dim", "width=48", "-o",
           "b.onnx"});
  EXPECT_EQ(o.code, 0) << o.err;

  o = run({"model", "import", "m.onnx", "--dim", "hight=48", "-o", "c.onnx"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("'hight'"), HasSubstr("height, width")));
  o = run({"model", "import", "m.onnx", "--dim", "height=48", "--dim", "width=64", "-o", "c.onnx"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("takes images of 48 x 64"));
  for (const char* wrong : {"height", "height=", "height=0", "height=-3", "height=4x", "=5"}) {
    o = run({"model", "import", "m.onnx", "--dim", wrong, "-o", "c.onnx"});
    EXPECT_EQ(o.code, 2) << wrong;
    EXPECT_THAT(o.err, HasSubstr("NAME=N")) << wrong;
  }
  o = run({"model", "import", "m.onnx", "--dim", "height=4", "--dim", "height=5", "-o", "c.onnx"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("height is 4 already"));
}

TEST_F(ModelImport, IsWrittenInTheOpsetThatIsAskedFor) {
  const auto opset_of = [&](const std::string& name) {
    onnx::ModelProto m;
    EXPECT_TRUE(m.ParseFromString(real_fs().read(at(name)).or_throw()));
    return m.opset_import(0).version();
  };
  ASSERT_EQ(run({"model", "build", "tinynet", "--opset", "23", "-o", "m.onnx"}).code, 0);
  EXPECT_EQ(opset_of("m.onnx"), 23);
  ASSERT_EQ(run({"model", "import", "m.onnx", "-o", "a.onnx"}).code, 0);
  EXPECT_EQ(opset_of("a.onnx"), 17) << "what is in it takes no more";
  ASSERT_EQ(run({"model", "import", "a.onnx", "--opset", "28", "-o", "b.onnx"}).code, 0);
  EXPECT_EQ(opset_of("b.onnx"), 28);
  EXPECT_EQ(load_model(real_fs(), at("b.onnx")).id(), load_model(real_fs(), at("m.onnx")).id());
  for (const char* wrong : {"16", "29", "x"}) {
    const Outcome o = run({"model", "import", "m.onnx", "--opset", wrong, "-o", "c.onnx"});
    EXPECT_EQ(o.code, 2) << wrong;
    EXPECT_THAT(o.err, HasSubstr("--opset")) << wrong;
  }
}

TEST_F(ModelImport, InputsBesideThePhotosAreGivenAsConstants) {
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(export_model(build_model("tinynet", {.classes = 5}))));
  const std::string output = m.graph().output(0).name();
  onnx::ValueInfoProto& in = *m.mutable_graph()->add_input();
  in.set_name("temperature");
  in.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  in.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
  onnx::NodeProto& n = *m.mutable_graph()->add_node();
  n.set_op_type("Div");
  n.add_input(output);
  n.add_input("temperature");
  n.add_output("scaled");
  m.mutable_graph()->mutable_output(0)->set_name("scaled");
  write("m.onnx", m.SerializeAsString());
  Outcome o = run({"model", "import", "m.onnx", "--input", "temperature=2.5", "-o", "a.onnx"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(load_model(real_fs(), at("a.onnx")).model.inputs.size(), 1U);
  o = run({"model", "import", "m.onnx", "--input", "warmth=2", "-o", "b.onnx"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("no input 'warmth'"), HasSubstr("temperature")));
  for (const char* wrong : {"temperature", "temperature=", "=2", "temperature=hot"}) {
    o = run({"model", "import", "m.onnx", "--input", wrong, "-o", "b.onnx"});
    EXPECT_EQ(o.code, 2) << wrong;
    EXPECT_THAT(o.err, HasSubstr("--input")) << wrong;
  }
  // Left open, the model takes two inputs, and whoever needs photos alone says how to give one.
  ASSERT_EQ(run({"model", "import", "m.onnx", "-o", "two.onnx"}).code, 0);
  o = run({"model", "split", "two.onnx", "-o", "parts"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("ndtrain model import --input NAME=VALUE"));
}

TEST_F(ModelImport, ThePreprocessingIsAsTheFlagsSay) {
  ASSERT_EQ(run({"model", "build", "tinynet", "--classes", "4", "-o", "m.onnx"}).code, 0);
  const auto import = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"model", "import", "m.onnx", "-o", "out.onnx"});
    return run(flags);
  };
  ASSERT_EQ(import({"--resize", "60", "--interpolation", "bicubic", "--mean", ".1,.2,.3", "--std",
                    "0.4,0.5,0.6", "--layout", "nhwc"})
                .code,
            0);
  Preprocess p = load_model(real_fs(), at("out.onnx")).preprocess;
  EXPECT_EQ(p.img_size, 48) << "the model's";
  EXPECT_EQ(p.resize, 60);
  EXPECT_EQ(p.interpolation, Interpolation::kBicubic);
  EXPECT_EQ(p.layout, Layout::kNhwc);
  EXPECT_EQ(p.mean, (std::array<float, 3>{.1F, .2F, .3F}));
  EXPECT_EQ(p.std, (std::array<float, 3>{.4F, .5F, .6F}));
  ASSERT_EQ(import({"--crop-pct", "0.5", "--interpolation", "bilinear", "--layout", "nchw"}).code,
            0);
  p = load_model(real_fs(), at("out.onnx")).preprocess;
  EXPECT_EQ(p.resize, 96);
  EXPECT_EQ(p.interpolation, Interpolation::kBilinear);
  EXPECT_EQ(p.layout, Layout::kNchw);

  using Words = std::vector<std::string>;
  for (const Words& wrong :
       {Words{"--mean", "1,2"}, Words{"--std", "1,2,x"}, Words{"--interpolation", "nearest"},
        Words{"--layout", "chw"}, Words{"--resize", "many"}}) {
    EXPECT_EQ(import(wrong).code, 2) << wrong[0];
  }
  for (const Words& wrong :
       {Words{"--crop-pct", "1.5"}, Words{"--std", "1,0,1"}, Words{"--img-size", "32"}}) {
    EXPECT_EQ(import(wrong).code, 1) << wrong[0];
  }
}

TEST_F(ModelImport, WeightsOfOtherFilesAreReadOnlyWhenThatIsAllowed) {
  onnx::ModelProto m;
  ASSERT_TRUE(m.ParseFromString(export_model(build_model("tinynet", {.classes = 3}))));
  write("whole.onnx", m.SerializeAsString());
  onnx::TensorProto& weights = *m.mutable_graph()->mutable_initializer(0);
  write("weights.bin", weights.raw_data());
  weights.clear_raw_data();
  weights.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& location = *weights.add_external_data();
  location.set_key("location");
  location.set_value("weights.bin");
  write("m.onnx", m.SerializeAsString());
  const Outcome o = run({"model", "import", "m.onnx", "-o", "out.onnx"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("external"));
  ASSERT_EQ(run({"model", "import", "m.onnx", "--external-data", "-o", "out.onnx"}).code, 0);
  ASSERT_EQ(run({"model", "import", "whole.onnx", "-o", "same.onnx"}).code, 0);
  std::filesystem::remove(at("weights.bin"));
  EXPECT_EQ(load_model(real_fs(), at("out.onnx")).id(),
            load_model(real_fs(), at("same.onnx")).id());
}

}  // namespace
}  // namespace ndtrain
