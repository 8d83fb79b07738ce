#include "framework/quantize/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using ::testing::ElementsAre;

// x -> a -> b + a -> pool; a and pool joined; then c, whose output is the model's.
Model residual_network() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 8, 8}}};
  m.outputs = {"out"};
  add_weight(m, "wa", {4, 3, 3, 3});
  add_weight(m, "wb", {4, 4, 3, 3});
  add_weight(m, "wd", {4, 4, 3, 3});
  add_weight(m, "wc", {2, 8, 1, 1});
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  m.nodes = {{"Conv", {"x", "wa"}, {"ca"}, same},
             {"Relu", {"ca"}, {"a"}, {}},
             {"Conv", {"a", "wb"}, {"cb"}, same},
             {"Add", {"cb", "a"}, {"sum"}, {}},
             {"Relu", {"sum"}, {"b"}, {}},
             {"Conv", {"b", "wd"}, {"d"}, same},
             {"Concat", {"b", "d"}, {"joined"}, {{"axis", int64_t{1}}}},
             {"MaxPool", {"joined"}, {"pool"}, {{"kernel_shape", Ints{2, 2}}}},
             {"Conv", {"pool", "wc"}, {"c"}, {}},
             {"GlobalAveragePool", {"c"}, {"out"}, {}}};
  return m;
}

TEST(QuantizedPlaces, AreInputsResidualsAndEndsOfConvolutions) {
  const QuantizedPlaces p = quantized_places(residual_network(), {"out"}, {});
  EXPECT_THAT(p.convolutions, ElementsAre(0, 2, 5, 8));
  std::vector<std::string> values;
  for (const auto& [name, group] : p.group_of) values.push_back(name);
  EXPECT_THAT(values, ElementsAre("a", "b", "c", "d", "joined", "pool", "x"));
}

TEST(QuantizedPlaces, WhatIsMovedSharesAScale) {
  const QuantizedPlaces p = quantized_places(residual_network(), {"out"}, {});
  const std::string group = p.group_of.at("pool");
  for (const char* name : {"joined", "b", "d"}) EXPECT_EQ(p.group_of.at(name), group) << name;
  EXPECT_NE(p.group_of.at("a"), group);
  EXPECT_THAT(p.never_negative, ElementsAre("a"));  // d may be negative
}

TEST(QuantizedPlaces, LieBeforeTheFeaturesAndLeaveOutWhatIsKept) {
  EXPECT_THAT(quantized_places(residual_network(), {"b"}, {}).convolutions, ElementsAre(0, 2));
  const QuantizedPlaces p = quantized_places(residual_network(), {"out"}, {"c", "ca"});
  EXPECT_THAT(p.convolutions, ElementsAre(2, 5));
  EXPECT_FALSE(p.group_of.contains("x"));
  EXPECT_FALSE(p.group_of.contains("pool"));
}

// x -> a -> swish -> excited by factors that are made of its planes' means -> c.
Model excited_network(const char* pool) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 8, 8}}};
  m.outputs = {"c"};
  add_weight(m, "wa", {4, 3, 3, 3});
  add_weight(m, "few", {2, 4, 1, 1});
  add_weight(m, "many", {4, 2, 1, 1});
  add_weight(m, "wc", {2, 4, 1, 1});
  m.nodes = {{"Conv", {"x", "wa"}, {"a"}, {{"pads", Ints{1, 1, 1, 1}}}},
             {"Sigmoid", {"a"}, {"sa"}, {}},
             {"Mul", {"a", "sa"}, {"swish"}, {}},
             {pool, {"swish"}, {"pixel"}, {}},
             {"Conv", {"pixel", "few"}, {"f"}, {}},
             {"Relu", {"f"}, {"r"}, {}},
             {"Conv", {"r", "many"}, {"g"}, {}},
             {"Sigmoid", {"g"}, {"factor"}, {}},
             {"Mul", {"factor", "swish"}, {"excited"}, {}},
             {"Conv", {"excited", "wc"}, {"c"}, {}}};
  return m;
}

TEST(QuantizedPlaces, SqueezeAndExcitationIsHeldThroughout) {
  const QuantizedPlaces p = quantized_places(excited_network("GlobalAveragePool"), {"c"}, {});
  EXPECT_THAT(p.convolutions, ElementsAre(0, 4, 6, 9));
  std::vector<std::string> values;
  for (const auto& [name, group] : p.group_of) values.push_back(name);
  EXPECT_THAT(values, ElementsAre("a", "c", "excited", "factor", "g", "pixel", "r", "swish", "x"));
  EXPECT_NE(p.group_of.at("swish"), p.group_of.at("excited"));
  EXPECT_NE(p.group_of.at("swish"), p.group_of.at("pixel"));
  EXPECT_THAT(p.never_negative, ElementsAre("r"));
}

TEST(QuantizedPlaces, MapsThatComeInF32AreNotHeldForAnAverage) {
  Model m = excited_network("GlobalAveragePool");
  m.nodes[1].op = "Softmax";
  const QuantizedPlaces p = quantized_places(m, {"c"}, {});
  EXPECT_TRUE(p.group_of.contains("pixel"));
  EXPECT_FALSE(p.group_of.contains("swish"));
  EXPECT_FALSE(p.group_of.contains("factor"));
}

// x -> a -> pool; pool and b, made of pool, are joined and normalised for c, and averaged for d.
Model dense_network(const char* average) {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 8, 8}}};
  m.outputs = {"d"};
  add_weight(m, "wa", {4, 3, 3, 3});
  add_weight(m, "wb", {4, 4, 3, 3});
  add_weight(m, "wc", {4, 8, 1, 1});
  add_weight(m, "wd", {2, 4, 1, 1});
  for (const char* name : {"scale", "bias", "mean", "var"}) add_weight(m, name, {8});
  for (const char* name : {"scale_d", "bias_d", "mean_d", "var_d"}) add_weight(m, name, {4});
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}}, halves{{"kernel_shape", Ints{2, 2}}};
  m.nodes = {{"Conv", {"x", "wa"}, {"ca"}, same},
             {"Relu", {"ca"}, {"a"}, {}},
             {"MaxPool", {"a"}, {"pool"}, halves},
             {"Conv", {"pool", "wb"}, {"b"}, same},
             {"Concat", {"pool", "b"}, {"joined"}, {{"axis", int64_t{1}}}},
             {"BatchNormalization", {"joined", "scale", "bias", "mean", "var"}, {"normal"}, {}},
             {"Relu", {"normal"}, {"r"}, {}},
             {"Conv", {"r", "wc"}, {"c"}, {}},
             {average, {"c"}, {"mean_of_c"}, halves},
             {"BatchNormalization",
              {"mean_of_c", "scale_d", "bias_d", "mean_d", "var_d"},
              {"normal_d"},
              {}},
             {"Conv", {"normal_d", "wd"}, {"d"}, {}}};
  return m;
}

TEST(QuantizedPlaces, NormalisedMapsAreHeldEachWithItsScale) {
  const QuantizedPlaces p = quantized_places(dense_network("AveragePool"), {"d"}, {});
  EXPECT_THAT(p.convolutions, ElementsAre(0, 3, 7, 10));
  std::vector<std::string> values;
  for (const auto& [name, group] : p.group_of) values.push_back(name);
  EXPECT_THAT(values, ElementsAre("a", "b", "c", "d", "mean_of_c", "normal_d", "pool", "r", "x"));
  EXPECT_EQ(p.group_of.at("a"), p.group_of.at("pool")) << "chosen of the same bytes";
  EXPECT_NE(p.group_of.at("b"), p.group_of.at("pool")) << "each has a scale";
  EXPECT_NE(p.group_of.at("c"), p.group_of.at("mean_of_c"));
}

TEST(QuantizedPlaces, WhatIsNormalisedOfF32IsNotHeld) {
  const QuantizedPlaces p = quantized_places(dense_network("LpPool"), {"d"}, {"ca", "b"});
  EXPECT_THAT(p.convolutions, ElementsAre(7, 10));
  for (const char* name : {"joined", "pool", "mean_of_c"}) {
    EXPECT_FALSE(p.group_of.contains(name)) << name;
  }
}

}  // namespace
}  // namespace ndtrain
