#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::flattening_model;

// The same model under other names of values.
Model renamed(const Model& m) {
  const auto name = [](const std::string& s) { return s.empty() ? s : "other_" + s; };
  Model r = m;
  for (ModelInput& in : r.inputs) in.name = name(in.name);
  for (std::string& out : r.outputs) out = name(out);
  for (ModelNode& n : r.nodes) {
    for (std::string& s : n.inputs) s = name(s);
    for (std::string& s : n.outputs) s = name(s);
  }
  r.initialisers.clear();
  for (const auto& [key, t] : m.initialisers) r.initialisers[name(key)] = t;
  return r;
}

TEST(ContentId, NamesOfValuesDoNotCount) {
  const Model m = flattening_model();
  EXPECT_EQ(content_id(m), content_id(renamed(m)));
  EXPECT_EQ(content_id(m), content_id(flattening_model()));
}

TEST(ContentId, EveryByteOfEveryWeightCounts) {
  const Model m = flattening_model();
  std::set<Digest> ids = {content_id(m)};
  size_t changes = 0;
  for (const auto& [name, t] : m.initialisers) {
    for (size_t i = 0; i < t.bytes(); ++i) {
      Tensor changed(t.type());
      std::memcpy(changed.mutable_data(), t.data(), t.bytes());
      static_cast<uint8_t*>(changed.mutable_data())[i] ^= 1;
      Model other = m;
      other.initialisers[name] = changed;
      ids.insert(content_id(other));
      ++changes;
    }
  }
  EXPECT_EQ(ids.size(), changes + 1);
}

TEST(ContentId, StructureCounts) {
  const Model m = flattening_model();
  std::vector<Model> others(9, m);
  others[0].nodes[1].op = "Sigmoid";
  others[1].nodes[0].attrs.set("group", int64_t{2});
  others[2].nodes[0].attrs.set("pads", Ints{1, 1, 1, 1});
  others[3].nodes[7].inputs.pop_back();
  others[4].inputs[0].dims[0] = 1;
  others[5].inputs[0].dtype = DType::kF16;
  others[6].outputs.push_back("h");
  std::swap(others[7].nodes[1], others[7].nodes[2]);
  others[8].initialisers["fc.b"] = m.initialisers.at("fc.b").reshaped({1, 5});
  std::set<Digest> ids = {content_id(m)};
  for (const Model& other : others) ids.insert(content_id(other));
  EXPECT_EQ(ids.size(), others.size() + 1);
}

TEST(ContentId, ADefaultThatIsStatedDoesNot) {
  Model m = flattening_model();
  m.nodes[0].attrs.set("group", int64_t{1});
  m.nodes[7].attrs.set("alpha", 1.0);
  EXPECT_EQ(content_id(m), content_id(flattening_model()));
}

TEST(ContentId, WiringCounts) {
  Model m;
  m.inputs = {{"a", DType::kF32, {3}}, {"b", DType::kF32, {3}}};
  m.outputs = {"y"};
  m.nodes = {{"Sub", {"a", "b"}, {"y"}, {}}};
  Model swapped = m;
  swapped.nodes[0].inputs = {"b", "a"};
  Model same = m;
  same.nodes[0].inputs = {"a", "a"};
  EXPECT_EQ((std::set<Digest>{content_id(m), content_id(swapped), content_id(same)}.size()), 3U);
}

TEST(ContentId, AnAbsentInputIsNotAPresentOne) {
  Model m;
  m.inputs = {{"x", DType::kF32, {3}}};
  m.outputs = {"y"};
  m.initialisers["low"] = m.initialisers["high"] = Tensor::of<float>(DType::kF32, {}, {1});
  m.nodes = {{"Clip", {"x", "low", ""}, {"y"}, {}}};
  Model other = m;
  other.nodes[0].inputs = {"x", "", "high"};
  EXPECT_NE(content_id(m), content_id(other));
}

TEST(ContentId, UnusedWeightsDoNotCount) {
  Model m = flattening_model();
  const Digest id = content_id(m);
  testing::add_weight(m, "unused", {3});
  EXPECT_EQ(content_id(m), id);
}

TEST(ContentId, MetadataCountsForTheKeysGiven) {
  Model m = flattening_model();
  const std::vector<std::string> keys = {"preprocess"};
  const Digest without = content_id(m, keys);
  EXPECT_NE(without, content_id(m));
  m.metadata["classes"] = "cat,dog";
  EXPECT_EQ(content_id(m, keys), without);
  m.metadata["preprocess"] = "resize 256";
  EXPECT_NE(content_id(m, keys), without);
}

}  // namespace
}  // namespace ndtrain
