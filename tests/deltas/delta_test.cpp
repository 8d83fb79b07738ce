#include "ndp/deltas/delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "framework/core/dtype.h"
#include "tests/deltas/some_model.h"

namespace ndtrain::ndp {
namespace {

using testing::drawn;
using testing::some_model;
using Kind = TensorChange::Kind;

// The delta; it has been seen to make `result` of `base`.
Delta checked(const std::string& base, const std::string& result) {
  const Delta delta = make_delta(base, result).or_throw();
  EXPECT_EQ(apply_delta(base, delta.bytes).or_throw(), result);
  const DeltaEnds ends = delta_ends(delta.bytes).or_throw();
  EXPECT_EQ(ends.base, sha256(base));
  EXPECT_EQ(ends.result, sha256(result));
  return delta;
}

Kind kind_of(const Delta& delta, const std::string& tensor) {
  const auto it = std::ranges::find(delta.tensors, tensor, &TensorChange::name);
  EXPECT_NE(it, delta.tensors.end()) << tensor;
  return it == delta.tensors.end() ? Kind::kNew : it->kind;
}

Model with(Model m, const std::string& name, const std::function<void(Tensor&)>& change) {
  Tensor t({m.initialisers.at(name).type()});
  std::memcpy(t.mutable_data(), m.initialisers.at(name).data(), t.bytes());
  change(t);
  m.initialisers[name] = t;
  return m;
}

TEST(Delta, OfAFileToItselfIsAHeaderAndAFewBytes) {
  const std::string model = export_model(some_model());
  const Delta delta = checked(model, model);
  EXPECT_LT(delta.bytes.size(), 150U);
  EXPECT_EQ(kind_of(delta, "conv.w"), Kind::kUnchanged);
}

TEST(Delta, OfOneChangedElementIsSparse) {
  const Model before = some_model();
  const Model after = with(before, "conv.w", [](Tensor& t) { t.mutable_as<float>()[77] = 3; });
  const Delta delta = checked(export_model(before), export_model(after));
  EXPECT_EQ(kind_of(delta, "conv.w"), Kind::kSparse);
  EXPECT_EQ(kind_of(delta, "fc.w"), Kind::kUnchanged);
  EXPECT_LT(delta.bytes.size(), 160U);
}

TEST(Delta, OfSmallStepsIsSmallerThanTheTensor) {
  const Model before = some_model();
  const Model after = with(before, "conv.w", [](Tensor& t) {
    Rng rng(3, "steps");
    for (float& v : t.mutable_as<float>()) {
      v *= 1 + 1e-5F * static_cast<float>(rng.next_normal());
    }
  });
  const Delta delta = checked(export_model(before), export_model(after));
  EXPECT_EQ(kind_of(delta, "conv.w"), Kind::kDifference);
  const TensorChange& conv = delta.tensors.front();
  EXPECT_LT(conv.delta_bytes, conv.tensor_bytes / 2);
}

TEST(Delta, OfOtherWeightsIsNotMuchLargerThanThem) {
  const std::string base = export_model(some_model(10, 1)),
                    result = export_model(some_model(10, 2));
  const Delta delta = checked(base, result);
  EXPECT_LT(delta.bytes.size(), result.size());
}

TEST(Delta, OfAHeadThatGrewHasTheNewClassesOnly) {
  const Model before = some_model(200);
  Model after = some_model(210, 9);
  after.initialisers["conv.w"] = before.initialisers.at("conv.w");
  for (const std::string name : {"fc.w", "fc.b"}) {
    after = with(after, name, [&](Tensor& t) {
      const Tensor& known = before.initialisers.at(name);
      std::memcpy(t.mutable_data(), known.data(), known.bytes());
    });
  }
  const Delta delta = checked(export_model(before), export_model(after));
  EXPECT_EQ(kind_of(delta, "fc.w"), Kind::kDifference);
  const size_t added = 10 * 33 * sizeof(float);
  EXPECT_LT(delta.bytes.size(), added + 400);
}

TEST(Delta, OfTensorsThatComeAndGo) {
  Model more = some_model();
  more.initialisers["scale"] = drawn(DType::kF32, {1, 32, 1, 1}, Rng(5, "scale"));
  more.nodes[1] = {"Mul", {"c", "scale"}, {"r"}, {}};
  const std::string a = export_model(some_model()), b = export_model(more);
  EXPECT_EQ(kind_of(checked(a, b), "scale"), Kind::kNew);
  checked(b, a);
}

TEST(Delta, AResultBeyondTwiceItsBaseIsRefused) {
  const std::string base = export_model(some_model());
  Model large = some_model();
  large.initialisers["conv.w"] = drawn(DType::kF32, {4096, 3, 8, 8}, Rng(2, "large"));
  large.initialisers["fc.w"] = drawn(DType::kF32, {10, 4096}, Rng(2, "fc"));
  EXPECT_EQ(make_delta(base, export_model(large)).status().code(), Code::kTooLarge);
  EXPECT_EQ(make_delta(base, "no model").status().code(), Code::kCorrupt);
  EXPECT_EQ(make_delta("no model", base).status().code(), Code::kCorrupt);
}

// Any bytes at all are carried over, whatever they mean: elements of every size, values that are no
// numbers, lengths that are no multiple.
TEST(Delta, OfDrawnChangesMakesEveryByte) {
  constexpr std::array kTypes = {DType::kF32, DType::kF16, DType::kU8, DType::kI64, DType::kF64};
  std::map<Kind, int> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed, "mutations");
    Model a = some_model(1 + static_cast<int64_t>(rng.next_below(40)), seed);
    for (int i = 0; i < 4; ++i) {
      const std::string name = "t" + std::to_string(i);
      const auto rows = static_cast<int64_t>(1 + rng.next_below(90));
      a.initialisers[name] =
          drawn(kTypes[rng.next_below(kTypes.size())], {rows, 5}, Rng(seed, name));
      a.nodes.push_back({"Identity", {name}, {name + ".out"}, {}});
      a.outputs.push_back(name + ".out");
    }
    Model b = a;
    for (auto& [name, tensor] : a.initialisers) {
      const uint64_t what = rng.next_below(6);
      if (what == 0) {
        b.initialisers[name] = drawn(tensor.type().dtype, tensor.shape(), Rng(seed, "other"));
      } else if (what < 4) {
        b = with(b, name, [&](Tensor& t) {
          auto* bytes = static_cast<uint8_t*>(t.mutable_data());
          const uint64_t changes = what == 1 ? 1 + rng.next_below(4) : rng.next_below(t.bytes());
          for (uint64_t c = 0; c < changes; ++c) {
            uint8_t& byte = bytes[rng.next_below(t.bytes())];
            byte = static_cast<uint8_t>(what == 2 ? byte + 1 : rng.next_bits());
          }
        });
      } else if (what == 4 && name[0] == 't') {
        const auto rows = static_cast<int64_t>(1 + rng.next_below(90));
        b.initialisers[name] = drawn(tensor.type().dtype, {rows, 5}, Rng(seed, name));
      }
    }
    if (rng.next_below(3) == 0) b.metadata["note"] = std::to_string(rng.next_bits());
    const Delta delta = checked(export_model(a), export_model(b));
    for (const TensorChange& t : delta.tensors) ++seen[t.kind];
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_EQ(seen.size(), 4U) << "not every kind was drawn";
}

}  // namespace
}  // namespace ndtrain::ndp
