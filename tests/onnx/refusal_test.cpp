// Models that import refuses, and what it says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/core/limits.h"
#include "tests/onnx/model_proto.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Import, NamesEveryOffenderAtOnce) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3});
  add_node(m, "Frobnicate", {"x"}, {"a"}).set_name("first");
  add_node(m, "Grumble", {"a"}, {"b"}).set_name("second");
  set_int(add_node(m, "Relu", {"b"}, {"c"}), "slope", 1);
  add_node(m, "Fold", {"c"}, {"y"}).set_domain("org.example");
  add_output(m, "y");
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("'first' (Frobnicate)"), HasSubstr("'second' (Grumble)"),
                                HasSubstr("attribute slope"), HasSubstr("org.example")));
}

TEST(Import, RefusesOpsetsAndIrVersionsItDoesNotKnow) {
  EXPECT_EQ(refusal(one_node("Relu", 1)), "");
  EXPECT_EQ(refusal(one_node("Relu", 23)), "");
  EXPECT_THAT(refusal(one_node("Relu", 0)), HasSubstr("opset 0"));
  EXPECT_EQ(refusal(one_node("Relu", 28)), "");
  EXPECT_THAT(refusal(one_node("Relu", 29)), HasSubstr("opset 29"));
  for (const auto& [ir, taken] : {std::pair(2, false), {3, true}, {14, true}, {15, false}}) {
    onnx::ModelProto m = one_node("Relu");
    m.set_ir_version(ir);
    EXPECT_EQ(refusal(m).find("IR version") == std::string::npos, taken) << ir;
  }
  onnx::ModelProto m = one_node("Relu");
  m.clear_opset_import();
  EXPECT_THAT(refusal(m), HasSubstr("no opset"));
}

TEST(Import, NamesTheNodesOfACycle) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {3});
  add_node(m, "Add", {"x", "c"}, {"a"}).set_name("one");
  add_node(m, "Relu", {"a"}, {"b"}).set_name("two");
  add_node(m, "Relu", {"b"}, {"c"}).set_name("three");
  add_node(m, "Relu", {"c"}, {"y"}).set_name("outside");
  add_output(m, "y");
  const std::string why = refusal(m);
  EXPECT_THAT(
      why, AllOf(HasSubstr("cycle"), HasSubstr("'one'"), HasSubstr("'two'"), HasSubstr("'three'")));
  EXPECT_THAT(why, ::testing::Not(HasSubstr("'outside'")));
}

TEST(Import, SortsNodesThatAreOutOfOrder) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {2});
  add_node(m, "Neg", {"a"}, {"y"});
  add_node(m, "Relu", {"x"}, {"a"});
  add_output(m, "y");
  EXPECT_EQ(run_floats(m, {floats({2}, {-1, 3})}), (std::vector<double>{0, -3}));
}

TEST(Import, NamesValuesThatComeFromNowhere) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {3});
  add_node(m, "Add", {"x", "lost"}, {"y"}).set_name("sum");
  add_output(m, "y");
  add_output(m, "z");
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("'sum'"), HasSubstr("'lost'"), HasSubstr("output 'z'")));
}

TEST(Import, RefusesValuesDefinedTwice) {
  onnx::ModelProto m = one_node("Relu");
  add_node(m, "Neg", {"x"}, {"y"}).set_name("again");
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("'again'"), HasSubstr("already defined")));

  onnx::ModelProto twice = one_node("Relu");
  add_floats(twice, "w", {1}, {1});
  add_floats(twice, "w", {1}, {2});
  EXPECT_THAT(refusal(twice), HasSubstr("'w': is there twice"));
}

TEST(Import, TakesInputsThatAreInitialisersAsInitialisers) {
  onnx::ModelProto m = empty_model(9, 3);
  add_input(m, "x", {2});
  add_input(m, "w", {2});
  add_floats(m, "w", {2}, {10, 20});
  add_node(m, "Add", {"x", "w"}, {"y"});
  add_output(m, "y");
  const Model model = import_proto(m);
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(run_floats(m, {floats({2}, {1, 2})}), (std::vector<double>{11, 22}));
}

TEST(Import, RefusesShapesItCannotHold) {
  const int64_t big = int64_t{1} << 32;
  onnx::ModelProto input = empty_model();
  add_input(input, "x", {big, big, 4});
  add_node(input, "Relu", {"x"}, {"y"});
  add_output(input, "y");
  EXPECT_THAT(refusal(input), HasSubstr("input 'x'"));

  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{big, big, 4},
                                           {-3},
                                           {int64_t{1} << 62, 4},
                                           {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    onnx::ModelProto m = one_node("Relu");
    add_floats(m, "w", dims, {1});
    EXPECT_THAT(refusal(m), HasSubstr("initialiser 'w'"));
  }
}

TEST(Import, ChecksThatAnInitialisersBytesFitItsShape) {
  onnx::ModelProto few = one_node("Relu");
  add_floats(few, "w", {3}, {1, 2});
  EXPECT_THAT(refusal(few), AllOf(HasSubstr("'w'"), HasSubstr("3"), HasSubstr("2")));

  onnx::ModelProto raw = one_node("Relu");
  onnx::TensorProto& t = add_floats(raw, "w", {3}, {});
  t.set_raw_data(std::string(11, '\0'));
  EXPECT_THAT(refusal(raw), HasSubstr("takes 12 bytes, but raw_data has 11"));
  t.set_raw_data(std::string(12, '\0'));
  EXPECT_EQ(refusal(raw), "");
  t.add_float_data(1);
  EXPECT_THAT(refusal(raw), HasSubstr("twice"));

  onnx::ModelProto range = one_node("Relu");
  onnx::TensorProto& u8 = add_floats(range, "w", {1}, {});
  u8.set_data_type(onnx::TensorProto::UINT8);
  u8.add_int32_data(256);
  EXPECT_THAT(refusal(range), HasSubstr("cannot hold 256"));

  onnx::ModelProto huge = one_node("Relu");
  add_floats(huge, "w", {int64_t{1} << 38}, {});  // counted before anything is allocated
  EXPECT_THAT(refusal(huge), HasSubstr("'w'"));
}

TEST(Import, RefusesWhatIsNoTensorByName) {
  onnx::ModelProto sparse = one_node("Relu");
  sparse.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("s");
  EXPECT_THAT(refusal(sparse), AllOf(HasSubstr("'s'"), HasSubstr("sparse")));

  onnx::ModelProto text = one_node("Relu");
  onnx::TensorProto& t = add_floats(text, "t", {1}, {});
  t.set_data_type(onnx::TensorProto::STRING);
  t.add_string_data("hello");
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("'t'"), HasSubstr("string")));

  onnx::ModelProto sequence = one_node("Relu");
  onnx::ValueInfoProto& v = *sequence.mutable_graph()->add_input();
  v.set_name("q");
  v.mutable_type()->mutable_sequence_type();
  EXPECT_THAT(refusal(sequence), AllOf(HasSubstr("'q'"), HasSubstr("a sequence")));

  onnx::ModelProto branch = one_node("If");
  onnx::AttributeProto& a = *branch.mutable_graph()->mutable_node(0)->add_attribute();
  a.set_name("then_branch");
  a.set_type(onnx::AttributeProto::GRAPHS);
  EXPECT_THAT(refusal(branch), AllOf(HasSubstr("then_branch"), HasSubstr("several graphs")));
  EXPECT_THAT(refusal(one_node("SequenceMap")), HasSubstr("operator SequenceMap is not supported"));
}

TEST(Import, OnlyTheFirstDimensionMayBeSymbolic) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3, -1});
  add_node(m, "Relu", {"x"}, {"y"});
  add_output(m, "y");
  EXPECT_THAT(refusal(m), AllOf(HasSubstr("dimension 2"), HasSubstr("x[2]"),
                                HasSubstr("ndtrain model import --dim N=N")));
  const Model model = import_proto(m, {.dims = {{"x[2]", 5}}});
  EXPECT_EQ(model.inputs[0].dims, (std::vector<int64_t>{kBatch, 3, 5}));
  const Model named = import_proto(m, {.dims = {{"N", 4}}});
  EXPECT_EQ(named.inputs[0].dims, (std::vector<int64_t>{4, 3, 4}));
}

TEST(Import, ADimensionThatNoInputHasIsRefused) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3, 4});
  add_node(m, "Relu", {"x"}, {"y"});
  add_output(m, "y");
  EXPECT_THAT(
      refusal(m, {.dims = {{"height", 5}}}),
      AllOf(HasSubstr("no input has a symbolic dimension 'height'"), HasSubstr("there are N")));
  EXPECT_THAT(refusal(m, {.dims = {{"x[1]", 3}}}), HasSubstr("'x[1]'"));
  EXPECT_THAT(refusal(one_node("Relu"), {.dims = {{"N", 1}}}), HasSubstr("all are numbers"));
}

TEST(Import, HeightAndWidthOfImagesAreTheSideThatIsAskedFor) {
  const auto dims = [](const std::vector<int64_t>& declared, const ImportOptions& options) {
    onnx::ModelProto m = empty_model();
    add_input(m, "x", declared);
    add_node(m, "Relu", {"x"}, {"y"});
    add_output(m, "y");
    onnx::StringStringEntryProto& p = *m.add_metadata_props();
    p.set_key("side");
    p.set_value("32");
    return import_proto(m, options).inputs[0].dims;
  };
  const ImportOptions side = {.image_side = [](const auto& metadata) -> int64_t {
    return std::stoll(metadata.at("side"));
  }};
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(dims({-1, 3, -1, -1}, side), (Dims{kBatch, 3, 32, 32}));
  EXPECT_EQ(dims({-1, -1, -1, 3}, side), (Dims{kBatch, 32, 32, 3}));
  EXPECT_EQ(dims({5, 3, -1, 48}, side), (Dims{5, 3, 32, 48}));
  EXPECT_THROW(dims({-1, 4, -1, -1}, side), Error);
  EXPECT_THROW(dims({-1, 3, -1}, side), Error);
  ImportOptions both = side;
  both.dims = {{"x[2]", 40}};
  EXPECT_EQ(dims({-1, 3, -1, -1}, both), (Dims{kBatch, 3, 40, 32}));
}

TEST(Import, RefusesWrongNumbersOfInputsAndWrongAttributeTypes) {
  onnx::ModelProto m = one_node("Relu");
  m.mutable_graph()->mutable_node(0)->add_input("x");
  EXPECT_THAT(refusal(m), HasSubstr("has 2 inputs"));

  onnx::ModelProto flatten = one_node("Flatten");
  set_float(*flatten.mutable_graph()->mutable_node(0), "axis", 1);
  EXPECT_THAT(refusal(flatten), HasSubstr("attribute axis is of the wrong type"));
}

TEST(Import, ATruncatedModelIsRefusedAtEveryByte) {
  onnx::ModelProto m = empty_model();
  add_input(m, "x", {-1, 3});
  add_floats(m, "w", {3}, {1, 2, 3});
  add_ints(m, "shape", {2}, {0, -1});
  set_int(add_node(m, "Flatten", {"x"}, {"f"}), "axis", 1);
  add_node(m, "Add", {"f", "w"}, {"s"});
  add_node(m, "Reshape", {"s", "shape"}, {"y"});
  add_output(m, "y");
  const std::string whole = m.SerializeAsString();
  EXPECT_NO_THROW(import_model(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW(import_model(whole.substr(0, n)), Error) << n << " of " << whole.size();
  }
}

TEST(Import, ACorruptModelIsRefusedOrTakenButNeverCrashes) {
  onnx::ModelProto m = one_node("Relu");
  add_floats(m, "w", {3}, {1, 2, 3});
  const std::string whole = m.SerializeAsString();
  for (size_t n = 0; n < whole.size(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string corrupt = whole;
      corrupt[n] = static_cast<char>(corrupt[n] ^ (1 << bit));
      try {
        import_model(corrupt);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Import, RefusesAnOversizedFileWithoutReadingIt) {
  const support::TemporaryDirectory directory;
  const std::string path = directory.at("oversized.onnx");
  auto file = real_fs().open(path, Fs::Mode::kCreate).or_throw();
  ASSERT_TRUE(file->truncate(limits::kModelFile + 1).ok());
  try {
    import_model(real_fs(), path);
    ADD_FAILURE() << "was taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(path), HasSubstr("external data")));
  }
}

TEST(Import, NamesTheFileThatIsNotThere) {
  try {
    import_model(real_fs(), "/nonexistent/model.onnx");
    ADD_FAILURE() << "was taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("/nonexistent/model.onnx"));
  }
}

}  // namespace
}  // namespace ndtrain
