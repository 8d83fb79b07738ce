#include "ndp/similarity/embedding.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr float kOff = 1e-6F;

// As a cache has them.
std::vector<std::byte> row_of(const std::vector<double>& values, DType type) {
  std::vector<std::byte> row(values.size() * size_of(type));
  store(values.data(), values.size(), type, row.data());
  return row;
}

Embedding made(const std::vector<TensorType>& types, std::span<const std::byte> row) {
  const std::optional<Embedding> e = embedding_of(types, row);
  EXPECT_TRUE(e.has_value());
  return e.value_or(Embedding());
}

TEST(Embedding, IsTheFeatureAtLengthOne) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kU8}) {
    const std::vector<TensorType> types = {{type, {1, 2}}};
    EXPECT_EQ(embedding_size(types), 2U);
    EXPECT_THAT(made(types, row_of({3, 4}, type)),
                ElementsAre(FloatNear(.6F, kOff), FloatNear(.8F, kOff)))
        << name_of(type);
  }
}

TEST(Embedding, IsAveragedOverPlacesAndTokens) {
  const std::vector<TensorType> map = {{DType::kF32, {1, 2, 1, 3}}};
  EXPECT_EQ(embedding_size(map), 2U);
  EXPECT_THAT(made(map, row_of({1, 3, 5, 4, 4, 4}, DType::kF32)),
              ElementsAre(FloatNear(.6F, kOff), FloatNear(.8F, kOff)));
  const std::vector<TensorType> tokens = {{DType::kF32, {1, 3, 2}}};
  EXPECT_EQ(embedding_size(tokens), 2U);
  EXPECT_THAT(made(tokens, row_of({1, 4, 3, 4, 5, 4}, DType::kF32)),
              ElementsAre(FloatNear(.6F, kOff), FloatNear(.8F, kOff)));
}

TEST(Embedding, HasAllOutputsOneBehindTheOther) {
  const std::vector<TensorType> types = {{DType::kF32, {1, 1}}, {DType::kF16, {1, 1, 2, 2}}};
  std::vector<std::byte> row = row_of({3}, DType::kF32);
  for (const std::byte b : row_of({1, 7, 2, 6}, DType::kF16)) row.push_back(b);
  EXPECT_EQ(embedding_size(types), 2U);
  EXPECT_THAT(made(types, row), ElementsAre(FloatNear(.6F, kOff), FloatNear(.8F, kOff)));
}

TEST(Embedding, IsComparedByTheCosine) {
  EXPECT_FLOAT_EQ(cosine({.6F, .8F}, {.6F, .8F}), 1);
  EXPECT_FLOAT_EQ(cosine({.6F, .8F}, {.8F, -.6F}), 0);
  EXPECT_FLOAT_EQ(cosine({1, 0}, {-.6F, .8F}), -.6F);
}

TEST(Embedding, IsNoneOfWhatHasNoDirection) {
  const std::vector<TensorType> types = {{DType::kF32, {1, 2}}};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& values :
       {std::vector<double>{0, 0}, {nan, 1}, {infinite, 1}, {infinite, -infinite}}) {
    EXPECT_FALSE(embedding_of(types, row_of(values, DType::kF32)).has_value()) << values[0];
  }
}

}  // namespace
}  // namespace ndtrain::ndp
