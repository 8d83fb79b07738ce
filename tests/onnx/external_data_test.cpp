#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/onnx/model_proto.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

class ExternalDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    real_fs().make_directories(root_ + "/model/sub").or_throw();
    const float values[] = {9, 1, 2, 3};
    for (const char* name : {"/model/w.bin", "/model/sub/w.bin", "/secret.bin"}) {
      std::ofstream(root_ + name, std::ios::binary)
          .write(reinterpret_cast<const char*>(values), sizeof values);
    }
  }

  // x + w, w stored at `location`. "" when import takes it and the sum is right.
  std::string outcome(const std::string& location, const std::string& offset = "4",
                      const std::string& length = "12", bool allowed = true) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", {3});
    onnx::TensorProto& w = add_floats(m, "w", {3}, {});
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair("location", location), {"offset", offset}, {"length", length}}) {
      if (value.empty()) continue;
      auto& entry = *w.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    add_node(m, "Add", {"x", "w"}, {"y"});
    add_output(m, "y");
    const std::string path = root_ + "/model/m.onnx";
    std::ofstream(path, std::ios::binary) << m.SerializeAsString();
    try {
      const Model model = import_model(real_fs(), path, {.external_data = allowed});
      const auto y = run_model(model, {floats({3}, {0, 0, 0})}).at(0).to_doubles();
      return y == std::vector<double>{1, 2, 3} ? "" : "wrong values";
    } catch (const Error& e) {
      return e.what();
    }
  }

  const support::TemporaryDirectory directory_;
  const std::string root_ = directory_.path();
};

TEST_F(ExternalDataTest, IsReadOnlyWhenAllowed) {
  EXPECT_EQ(outcome("w.bin"), "");
  EXPECT_EQ(outcome("sub/w.bin"), "");
  EXPECT_EQ(outcome("sub/../w.bin"), "");
  EXPECT_EQ(outcome("w.bin", "4", ""), "");
  EXPECT_THAT(outcome("w.bin", "4", "12", false), HasSubstr("'w': is stored outside the model"));
}

TEST_F(ExternalDataTest, ThatLeavesTheModelsDirectoryIsRefused) {
  ASSERT_EQ(symlink("../secret.bin", (root_ + "/model/link").c_str()), 0);
  ASSERT_EQ(symlink("..", (root_ + "/model/up").c_str()), 0);
  ASSERT_EQ(symlink("w.bin", (root_ + "/model/inside").c_str()), 0);
  const std::string absolute = root_ + "/model/w.bin";
  for (const std::string& location :
       {std::string("../secret.bin"), absolute, std::string("link"), std::string("up/secret.bin"),
        std::string("sub/../../secret.bin")}) {
    EXPECT_THAT(outcome(location), HasSubstr("outside the model's directory")) << location;
  }
  EXPECT_EQ(outcome("inside"), "");
}

TEST_F(ExternalDataTest, MustLieWithinItsFile) {
  EXPECT_THAT(outcome("w.bin", "8"), HasSubstr("which has 16"));
  EXPECT_THAT(outcome("w.bin", "9223372036854775807"), HasSubstr("which has 16"));
  EXPECT_THAT(outcome("w.bin", "-4"), HasSubstr("not a size"));
  EXPECT_THAT(outcome("w.bin", "4", "8"), HasSubstr("length"));
  EXPECT_THAT(outcome("w.bin", "4x"), HasSubstr("not a size"));
}

TEST_F(ExternalDataTest, MustBeAPlainFile) {
  ASSERT_EQ(mkfifo((root_ + "/model/pipe").c_str(), 0600), 0);
  EXPECT_THAT(outcome("pipe"), HasSubstr("not a file"));
  EXPECT_THAT(outcome("sub"), HasSubstr("not a file"));
  EXPECT_THAT(outcome("absent"), HasSubstr("cannot open"));
  EXPECT_THAT(outcome(""), HasSubstr("not a file name"));
}

}  // namespace
}  // namespace ndtrain
