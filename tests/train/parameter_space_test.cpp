#include "framework/train/parameter_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_tensor;

// Parameters of these shapes, "a", "b" and so on.
struct Params {
  Graph g;
  std::vector<ValueId> ids;
  explicit Params(const std::vector<Shape>& shapes) {
    for (const Shape& s : shapes) {
      const std::string name(1, static_cast<char>('a' + ids.size()));
      ids.push_back(g.add_param(name, random_tensor({DType::kF32, s}, 1, name)));
    }
  }
};

TEST(ParameterSpace, SlotsFollowOneAnotherOnCacheLinesAndPaddingIsZero) {
  const Params p({{3, 5}, {16}, {}, {7, 1, 5}});
  const ParameterSpace space(p.g, p.ids, cpu());
  ASSERT_EQ(space.slots().size(), 4U);
  const ParameterRange want[] = {{0, 15}, {16, 32}, {32, 33}, {48, 83}};
  std::vector<bool> used(static_cast<size_t>(space.size()));
  for (size_t i = 0; i < 4; ++i) {
    const ParameterSlot& s = space.slots()[i];
    EXPECT_EQ(s.range, want[i]) << s.name;
    EXPECT_EQ(space.slot(s.name), i);
    EXPECT_TRUE(space.copy(i).same_bytes(p.g.value(p.ids[i]).data)) << s.name;
    std::fill_n(used.begin() + s.range.begin, s.range.size(), true);
  }
  EXPECT_EQ(space.size(), 96);
  EXPECT_EQ(space.count(), 15 + 16 + 1 + 35);
  for (int64_t i = 0; i < space.size(); ++i) {
    EXPECT_TRUE(used[static_cast<size_t>(i)] || *space.values(i) == 0) << i;
    EXPECT_EQ(*space.gradients(i), 0) << i;
  }
}

TEST(ParameterSpace, ASlotIsReadAndSetInAnyBufferThatLiesAlike) {
  const Params p({{5}, {2, 3}});
  ParameterSpace space(p.g, p.ids, cpu());
  const Tensor value = random_tensor({DType::kF32, {2, 3}}, 2, "value");
  space.set(1, value);
  EXPECT_TRUE(space.copy(1).same_bytes(value));
  EXPECT_TRUE(space.copy(0).same_bytes(p.g.value(p.ids[0]).data)) << "the other one has changed";
  const DeviceTensor moment(cpu(), {DType::kF32, {space.size()}});
  space.set(1, static_cast<float*>(moment.data()), value);
  EXPECT_TRUE(space.copy(1, static_cast<const float*>(moment.data())).same_bytes(value));
  EXPECT_EQ(moment.copy().to_doubles()[16], value.to_doubles()[0]);
  EXPECT_THAT(error_of([&] { space.set(0, value); }),
              AllOf(HasSubstr("'a'"), HasSubstr("f32[5]"), HasSubstr("f32[2,3]")));
  EXPECT_THAT(error_of([&] { (void)space.slot("c"); }), HasSubstr("'c'"));
}

TEST(ParameterSpace, OnlyF32WithAValueCanBeTrained) {
  Graph g;
  const ValueId half = g.add_param("half", Tensor({DType::kF16, {2}}));
  const ValueId empty = g.add_param("empty", {DType::kF32, {2}});
  const ValueId fine = g.add_param("fine", Tensor({DType::kF32, {2}}));
  const auto refusal = [&](const std::vector<ValueId>& params) {
    return error_of([&] { ParameterSpace(g, params, cpu()); });
  };
  EXPECT_THAT(refusal({half}), HasSubstr("'half'"));
  EXPECT_THAT(refusal({empty}), HasSubstr("without a value"));
  EXPECT_THAT(refusal({fine, fine}), HasSubstr("twice"));
}

}  // namespace
}  // namespace ndtrain
