#include "framework/sparse/sync/drops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

using Drops = std::vector<std::pair<std::string, double>>;
using OfSlots = std::vector<std::optional<double>>;

OfSlots of_slots(const Drops& drops) {
  std::vector<ParameterSlot> slots;
  for (const char* name : {"conv.w", "conv.b", "conv2.w", "fc.w"}) slots.push_back({.name = name});
  return drops_of(slots, drops);
}

TEST(Drops, AreByNamesAndPatterns) {
  constexpr auto kNone = std::nullopt;
  EXPECT_EQ(of_slots({}), (OfSlots{kNone, kNone, kNone, kNone}));
  EXPECT_EQ(of_slots({{"fc.w", 0.5}}), (OfSlots{kNone, kNone, kNone, 0.5}));
  EXPECT_EQ(of_slots({{"conv.*", 0}}), (OfSlots{0, 0, kNone, kNone}));
  EXPECT_EQ(of_slots({{"conv*", 0.25}}), (OfSlots{0.25, 0.25, 0.25, kNone}));
  EXPECT_EQ(of_slots({{"*", 0.25}}), (OfSlots{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(of_slots({{"*.w", 0.25}}), (OfSlots{0.25, kNone, 0.25, 0.25}));
  EXPECT_EQ(of_slots({{"c*v*w", 0.25}}), (OfSlots{0.25, kNone, 0.25, kNone}));
  EXPECT_EQ(of_slots({{"conv*2*", 0.25}}), (OfSlots{kNone, kNone, 0.25, kNone}));
  EXPECT_EQ(of_slots({{"*nv*.b", 0.25}}), (OfSlots{kNone, 0.25, kNone, kNone}));
}

TEST(Drops, TheLastThatFitsCounts) {
  EXPECT_EQ(of_slots({{"*", 0.9}, {"conv*", 0.5}, {"conv.b", 0}}), (OfSlots{0.5, 0, 0.5, 0.9}));
  EXPECT_EQ(of_slots({{"conv.b", 0}, {"conv*", 0.5}, {"*", 0.9}}), (OfSlots{0.9, 0.9, 0.9, 0.9}));
}

TEST(Drops, OfWhatThereIsNotAreRefusedByName) {
  const auto refused = [](const Drops& drops) { return error_of([&] { of_slots(drops); }); };
  EXPECT_THAT(refused({{"conv.w", 0}, {"fc", 0}}), HasSubstr("drop of 'fc': no parameter"));
  EXPECT_THAT(refused({{"fc", 0}}), HasSubstr("there are fc.w, conv.w, conv.b, conv2.w"));
  EXPECT_THAT(refused({{"bn*", 0}}), HasSubstr("drop of 'bn*': no parameter"));
  EXPECT_THAT(refused({{"", 0}}), HasSubstr("drop of '': no parameter"));
  EXPECT_THAT(refused({{"conv.w*w", 0}}), HasSubstr("drop of 'conv.w*w': no parameter"));
  EXPECT_THAT(refused({{"*x*", 0}}), HasSubstr("drop of '*x*': no parameter"));
  EXPECT_THAT(refused({{"fc.w", 1}}), HasSubstr("drop of 'fc.w' is 1: from 0 to below 1"));
  EXPECT_THAT(refused({{"fc.w", -0.5}, {"*", 0}}), HasSubstr("is -0.5"));
  EXPECT_THAT(refused({{"fc.w", NAN}}), HasSubstr("nan"));
}

}  // namespace
}  // namespace ndtrain
