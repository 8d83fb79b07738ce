#include "framework/passes/photo_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/model_builder.h"
#include "tests/graph/random_graph.h"

namespace ndtrain {
namespace {

using testing::interpret_named;

constexpr PhotoInput kPhotos = {.mean = {0.485F, 0.456F, 0.406F}, .std = {0.229F, 0.224F, 0.225F}};

// A network that gives back what it reads.
Graph echo(Shape s, DType t = DType::kF32) {
  Graph g;
  g.mark_output(g.add1("Identity", {g.add_input("photos", {t, std::move(s)})}));
  g.rename(g.outputs()[0], "same");
  return g;
}

// A photo of 2 x 3 pixels, all bytes different.
Tensor photo() {
  Tensor t({DType::kU8, {1, 2, 3, 3}});
  for (uint8_t i = 0; i < 18; ++i) t.mutable_as<uint8_t>()[i] = static_cast<uint8_t>(14 * i);
  return t;
}

float normal(int64_t pixel, size_t colour) {
  const auto x = static_cast<float>(14 * (3 * pixel + static_cast<int64_t>(colour)));
  return (x / 255.0F - kPhotos.mean[colour]) / kPhotos.std[colour];
}

TEST(PhotoInput, BytesBecomeTheFloatsTheNetworkReads) {
  for (const bool last : {false, true}) {
    PhotoInput photos = kPhotos;
    photos.channels_last = last;
    const Graph g = reading_photos(echo(last ? Shape{1, 2, 3, 3} : Shape{1, 3, 2, 3}), photos);
    EXPECT_EQ(g.type(g.inputs()[0]), (TensorType{DType::kU8, {1, 2, 3, 3}}));
    EXPECT_EQ(g.value(g.outputs()[0]).name, "same");
    const auto y = interpret_named(g, {{"photos@u8", photo().to_doubles()}}).at(0);
    for (int64_t pixel = 0; pixel < 6; ++pixel) {
      for (size_t colour = 0; colour < 3; ++colour) {
        const size_t at = last ? static_cast<size_t>(3 * pixel) + colour
                               : 6 * colour + static_cast<size_t>(pixel);
        EXPECT_EQ(static_cast<float>(y[at]), normal(pixel, colour)) << pixel << " " << colour;
      }
    }
  }
}

TEST(PhotoInput, ANetworkOfAnythingElseIsRefused) {
  const auto refusal = [](const Graph& g) {
    return testing::error_of([&] { reading_photos(g, kPhotos); });
  };
  EXPECT_THAT(refusal(echo({1, 4, 2, 3})), ::testing::HasSubstr("[1,4,2,3]"));
  EXPECT_THAT(refusal(echo({1, 3, 2})), ::testing::HasSubstr("photo"));
  EXPECT_THAT(refusal(echo({1, 3, 2, 3}, DType::kF16)), ::testing::HasSubstr("f16"));
}

}  // namespace
}  // namespace ndtrain
