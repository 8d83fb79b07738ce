#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "framework/core/publish.h"
#include "framework/onnx/export.h"
#include "tests/onnx/model_proto.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

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

TEST_F(ExternalDataTest, InAFileCalledAfterTheModelIsReadUnasked) {
  const auto beside = [&](const std::string& name) {
    std::filesystem::copy(root_ + "/model/w.bin", root_ + "/model/" + name);
    return outcome(name, "4", "12", false);
  };
  EXPECT_EQ(beside("m.onnx.data"), "") << "as PyTorch writes it";
  EXPECT_EQ(beside("m.onnx.0123456789abcdef.data"), "");
  for (const char* name : {"other.onnx.data", "m.onnxdata", "m.onnx.bin", "m.onnx.d/../w.data"}) {
    EXPECT_THAT(outcome(name, "4", "12", false), HasSubstr("--external-data allows that")) << name;
  }
  std::filesystem::remove(root_ + "/model/m.onnx.data");
  ASSERT_EQ(symlink("../secret.bin", (root_ + "/model/m.onnx.data").c_str()), 0);
  EXPECT_THAT(outcome("m.onnx.data", "4", "12", false), HasSubstr("outside the model's directory"));
}

class TwoFiles : public ::testing::Test {
 protected:
  static Model model(float first) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", {1500});
    std::vector<float> values(1500, 2);
    values[0] = first;
    add_floats(m, "scale", {1500}, values);
    add_floats(m, "bias", {1500}, std::vector<float>(1500, 1));
    add_floats(m, "one", {1}, {1});
    add_node(m, "Mul", {"x", "scale"}, {"a"});
    add_node(m, "Add", {"a", "bias"}, {"b"});
    add_node(m, "Add", {"b", "one"}, {"y"});
    add_output(m, "y");
    return import_model(m.SerializeAsString());
  }
  Status save(const Model& model) const {
    return export_model(real_fs(), path_, model, {.most_in_one_file = 12'003});
  }
  std::vector<std::string> files() const { return real_fs().list(directory_.path()).or_throw(); }
  std::string weights_file() const {
    const auto all = files();
    return *std::ranges::max_element(all, {}, &std::string::size);
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.at("m.onnx");
};

TEST_F(TwoFiles, HaveAModelOfMoreWeightsThanOneMay) {
  const Model given = model(3);
  ASSERT_TRUE(export_model(real_fs(), path_, given, {.most_in_one_file = 12'004}).ok());
  EXPECT_THAT(files(), UnorderedElementsAre("m.onnx"));
  ASSERT_TRUE(save(given).ok());
  ASSERT_THAT(files(), UnorderedElementsAre("m.onnx", weights_file()));
  EXPECT_THAT(weights_file(), ContainsRegex("^m\\.onnx\\.[0-9a-f]{16}\\.data$"));
  EXPECT_LT(real_fs().info(path_)->size, 1500);
  EXPECT_EQ(real_fs().info(directory_.at(weights_file()))->size, 8192 + 6000);
  EXPECT_EQ(content_id(import_model(real_fs(), path_)), content_id(given));
}

TEST_F(TwoFiles, AreOneWhereOneIsWanted) {
  const Model given = model(3);
  ASSERT_TRUE(save(given).ok());
  const std::string one = read_as_one_file(real_fs(), path_).or_throw();
  EXPECT_EQ(one, export_model(given));
  ASSERT_TRUE(publish(real_fs(), directory_.at("one.onnx"), one).ok());
  EXPECT_EQ(read_as_one_file(real_fs(), directory_.at("one.onnx")).or_throw(), one);
  ASSERT_TRUE(publish(real_fs(), directory_.at("none.onnx"), "no model").ok());
  EXPECT_EQ(read_as_one_file(real_fs(), directory_.at("none.onnx")).or_throw(), "no model");
  EXPECT_EQ(read_as_one_file(real_fs(), directory_.at("absent.onnx")).status().code(),
            Code::kNotFound);
  std::filesystem::resize_file(directory_.at(weights_file()), 8192);
  const Status cut = read_as_one_file(real_fs(), path_).status();
  EXPECT_EQ(cut.code(), Code::kCorrupt);
  EXPECT_THAT(cut.message(),
              AllOf(HasSubstr("m.onnx: initialiser 'scale'"), HasSubstr("are wanted")));
}

TEST_F(TwoFiles, AreThoseOfTheLastModelAndOfNoOther) {
  std::ofstream(directory_.at("m.onnx.data")) << "somebody's own";
  ASSERT_TRUE(save(model(3)).ok());
  const std::string first = weights_file();
  ASSERT_TRUE(save(model(4)).ok());
  const std::string second = weights_file();
  EXPECT_NE(first, second);
  EXPECT_THAT(files(), UnorderedElementsAre("m.onnx", second, "m.onnx.data"));
  EXPECT_EQ(content_id(import_model(real_fs(), path_)), content_id(model(4)));
  ASSERT_TRUE(save(model(4)).ok());
  EXPECT_THAT(files(), UnorderedElementsAre("m.onnx", second, "m.onnx.data"));
  std::filesystem::remove(directory_.at(second));
  EXPECT_THAT([&] { import_model(real_fs(), path_); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'scale'"), HasSubstr("cannot open"))));
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
