// A model of 2.2 GB, whose weights are beside it: taken where $NDT_LARGE_MODELS is set, for it
// needs as much memory. The file has holes and takes no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "framework/core/limits.h"
#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 1 << 14, kColumns = 1 << 11, kWeights = 17;  // of 128 MiB each
constexpr int64_t kBytes = kRows * kColumns * 4;

class LargeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("NDT_LARGE_MODELS")) GTEST_SKIP() << "$NDT_LARGE_MODELS is not set";
  }
  std::string at(const std::string& name) const { return directory_.path() + "/" + name; }

  // The last number of weight k is k + 1, all others are 0.
  void write_weights() const {
    std::ofstream file(at("weights"), std::ios::binary);
    for (int64_t k = 0; k < kWeights; ++k) {
      const auto last = static_cast<float>(k + 1);
      file.seekp((k + 1) * kBytes - 4);
      file.write(reinterpret_cast<const char*>(&last), sizeof last);
    }
  }

  // y = x + the last row of each weight.
  std::string write_model() const {
    onnx::ModelProto m = empty_model(18, 10);
    add_input(m, "x", {-1, kColumns});
    add_ints(m, "last", {}, {kRows - 1});
    std::string sum = "x";
    for (int64_t k = 0; k < kWeights; ++k) {
      const std::string name = "w" + std::to_string(k);
      onnx::TensorProto& w = add_floats(m, name, {kRows, kColumns}, {});
      w.set_data_location(onnx::TensorProto::EXTERNAL);
      for (const auto& [key, value] : {std::pair("location", std::string("weights")),
                                       {"offset", std::to_string(k * kBytes)},
                                       {"length", std::to_string(kBytes)}}) {
        auto& entry = *w.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
      add_node(m, "Gather", {name, "last"}, {"row" + name});
      add_node(m, "Add", {sum, "row" + name}, {"sum" + name});
      sum = "sum" + name;
    }
    add_output(m, sum);
    std::ofstream(at("m.onnx"), std::ios::binary) << m.SerializeAsString();
    return at("m.onnx");
  }

  const support::TemporaryDirectory directory_;
};

TEST_F(LargeModel, IsReadFromBesideItsFile) {
  write_weights();
  const Model model = import_model(real_fs(), write_model(), {.external_data = true});
  ASSERT_EQ(model.inputs.size(), 1U);
  for (int64_t k = 0; k < kWeights; ++k) {
    const Tensor& w = model.initialisers.at("w" + std::to_string(k));
    EXPECT_EQ(w.as<float>().back(), static_cast<float>(k + 1));
    EXPECT_EQ(w.as<float>().front(), 0.0F);
  }
  const Graph g = bind(model, 2);
  EXPECT_EQ(g.shape(g.outputs()[0]), (Shape{2, kColumns}));
  try {
    export_model(model);
    FAIL() << "protobuf has no such files";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(std::to_string(kWeights * kBytes + 8) + " bytes"),
                                HasSubstr("half precision")));
  }
}

TEST_F(LargeModel, InOneFileIsRefusedBeforeItIsRead) {
  std::ofstream(at("m.onnx")) << "";
  for (const int64_t more : {0, 1}) {
    std::filesystem::resize_file(at("m.onnx"), static_cast<uintmax_t>(limits::kModelFile + more));
    try {
      import_model(real_fs(), at("m.onnx"));
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(),
                  HasSubstr(more ? "store its weights as external data" : "protobuf cannot parse"));
    }
  }
}

}  // namespace
}  // namespace ndtrain
