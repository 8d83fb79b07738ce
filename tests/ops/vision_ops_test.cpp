// Numbers of ONNX's own node tests, or worked out by hand, for what detection and segmentation
// networks have: Resize, ConvTranspose, regions, grids, scattering. And what is refused.
#include <gmock/gmock.h>

#include "tests/ops/op_outputs.h"

namespace ndtrain {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Reals = std::vector<double>;

Reals up_to(int n, int first = 1) {
  Reals v;
  for (int i = first; i <= n; ++i) v.push_back(i);
  return v;
}

auto about(const Reals& expected) { return Pointwise(DoubleNear(1e-5), expected); }

const Given kNothing = Given::absent();

TEST(Resize, LinearWeighsTheTwoPlacesAround) {
  const Given scales = Given::constant(DType::kF32, {1, 1, 2, 2});
  EXPECT_THAT(
      output_of("Resize", {{{1, 1, 2, 2}, up_to(4)}, kNothing, scales}, {{"mode", "linear"}}),
      about({1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}));
}

TEST(Resize, NearestTakesThePlaceItself) {
  const Given sizes = Given::constant(DType::kI64, {1, 1, 1, 3});
  EXPECT_THAT(output_of("Resize", {{{1, 1, 2, 4}, up_to(8)}, kNothing, kNothing, sizes}),
              ElementsAre(1, 2, 4));
}

TEST(Resize, CropsARegionOfInterest) {
  const Given roi = Given::constant(DType::kF32, {0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8});
  const Given sizes = Given::constant(DType::kI64, {1, 1, 3, 3});
  const Attrs crop{{"mode", "linear"}, {"coordinate_transformation_mode", "tf_crop_and_resize"}};
  EXPECT_THAT(output_of("Resize", {{{1, 1, 4, 4}, up_to(16)}, roi, kNothing, sizes}, crop),
              about({7.6, 7.9, 8.2, 8.8, 9.1, 9.4, 10, 10.3, 10.6}));
}

TEST(Resize, CubicWithAntialiasLooksAtAllThatIsLeftOut) {
  const Given scales = Given::constant(DType::kF32, {1, 1, 0.6, 0.6});
  const Attrs smooth{{"mode", "cubic"}, {"antialias", int64_t{1}}};
  EXPECT_THAT(output_of("Resize", {{{1, 1, 4, 4}, up_to(16)}, kNothing, scales}, smooth),
              about({2.518072, 4.285886, 9.589329, 11.357142}));
}

TEST(Resize, KeepsTheAspectRatio) {
  const Given x{{1, 1, 2, 4}, up_to(8)}, sizes = Given::constant(DType::kI64, {7, 8});
  const auto places = [&](const char* policy) {
    return output_of("Resize", {x, kNothing, kNothing, sizes},
                     {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", policy}})
        .size();
  };
  EXPECT_EQ(places("stretch"), 7U * 8);
  EXPECT_EQ(places("not_smaller"), 7U * 14);
  EXPECT_EQ(places("not_larger"), 4U * 8);
}

TEST(Resize, RefusesWhatOnnxDoesNotHave) {
  const Given x{{1, 4}, up_to(4)}, scales = Given::constant(DType::kF32, {1, 2});
  EXPECT_THAT(why_not("Resize", {x, kNothing, scales}, {{"mode", "area"}}), HasSubstr("'area'"));
  EXPECT_THAT(why_not("Resize", {x, kNothing, scales}, {{"antialias", int64_t{1}}}),
              HasSubstr("nearest has no antialias"));
  EXPECT_THAT(why_not("Resize", {x, kNothing, Given::constant(DType::kF32, {2})}),
              HasSubstr("must be 2 of one of them"));
  EXPECT_THAT(why_not("Resize", {x, kNothing, Given{{2}, {1, 2}}}), HasSubstr("known in advance"));
  EXPECT_THAT(why_not("Resize", {Given{DType::kU8, {1, 4}, up_to(4)}, kNothing, scales},
                      {{"mode", "linear"}}),
              HasSubstr("only mode nearest takes others"));
}

TEST(ConvTranspose, PlacesTheKernelAtEveryInput) {
  // Two inputs, 2 apart, and a kernel of 3: y = [x0, 10 x0, 100 x0 + x1, 10 x1, 100 x1].
  const Given x{{1, 1, 2}, {1, 2}}, w{{1, 1, 3}, {1, 10, 100}};
  EXPECT_THAT(output_of("ConvTranspose", {x, w, Given{{1}, {0.5}}}, {{"strides", Ints{2}}}),
              ElementsAre(1.5, 10.5, 102.5, 20.5, 200.5));
  EXPECT_THAT(output_of("ConvTranspose", {x, w}, {{"strides", Ints{2}}, {"pads", Ints{1, 1}}}),
              ElementsAre(10, 102, 20));
  EXPECT_THAT(output_of("ConvTranspose", {x, w},
                        {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}),
              ElementsAre(10, 102, 20, 200));
  EXPECT_THAT(output_of("ConvTranspose", {x, w}, {{"strides", Ints{2}}, {"output_shape", Ints{6}}}),
              ElementsAre(1, 10, 102, 20, 200, 0));
}

TEST(Vision, RefusesWhatIsBeyondAllBounds) {
  const Given x{{1, 1, 2}, {1, 2}}, w{{1, 1, 3}, {1, 10, 100}};
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THAT(why_not("ConvTranspose", {x, w}, {{"strides", Ints{kHuge}}}), HasSubstr("strides"));
  EXPECT_THAT(why_not("ConvTranspose", {x, w}, {{"pads", Ints{-1, 0}}}), HasSubstr("pads"));
  EXPECT_THAT(why_not("MaxUnpool", {x, Given(DType::kI64, {1, 1, 2}, {0, 1})},
                      {{"kernel_shape", Ints{kHuge}}}),
              HasSubstr("a kernel, stride or pad is"));
  EXPECT_THAT(
      why_not("Resize", {x, kNothing, kNothing, Given::constant(DType::kI64, {1, 1, 1e15})}),
      HasSubstr("a size is"));
  EXPECT_THAT(why_not("Resize", {x, kNothing, Given::constant(DType::kF32, {1, 1, 9e8})}),
              HasSubstr("makes too much of 2"));
  const Given image{{1, 1, 2, 2}, up_to(4)}, roi{{1, 4}, {0, 0, 1, 1}};
  EXPECT_THAT(
      why_not("RoiAlign", {image, roi, Given(DType::kI64, {1}, {0})}, {{"sampling_ratio", kHuge}}),
      HasSubstr("sampling_ratio"));
}

TEST(ConvTranspose, RefusesPaddingBeyondTheStride) {
  const Given x{{1, 1, 2}, {1, 2}}, w{{1, 1, 3}, {1, 10, 100}};
  EXPECT_THAT(why_not("ConvTranspose", {x, w}, {{"output_padding", Ints{1}}}),
              HasSubstr("output_padding 1 is not below the stride, which is 1"));
}

TEST(ScatterElements, AddsToAPlaceThatIsNamedTwice) {
  const Given at(DType::kI64, {1, 2}, {1, -4});
  const Attrs add{{"axis", int64_t{1}}, {"reduction", "add"}};
  EXPECT_THAT(output_of("ScatterElements", {{{1, 5}, up_to(5)}, at, {{1, 2}, {1.5, 2}}}, add),
              ElementsAre(1, 5.5, 3, 4, 5));
  EXPECT_THAT(why_not("ScatterElements",
                      {{{1, 5}, up_to(5)}, Given(DType::kI64, {1, 1}, {5}), {{1, 1}, {1}}},
                      {{"axis", int64_t{1}}}),
              HasSubstr("index 5 is not in an axis of 5"));
}

TEST(TopK, GivesTheFirstOfEqualsFirst) {
  const Given x{{1, 5}, {1, 3, 3, 0, 7}}, k = Given::constant(DType::kI64, {3});
  const std::vector<Reals> y = outputs_of("TopK", {x, k}, {}, 2);
  EXPECT_THAT(y[0], ElementsAre(7, 3, 3));
  EXPECT_THAT(y[1], ElementsAre(4, 1, 2));
  EXPECT_THAT(why_not("TopK", {x, Given::constant(DType::kI64, {6})}), HasSubstr("k is 6"));
}

TEST(GridSample, InterpolatesAndIsZeroOutside) {
  const Given x{{1, 1, 3, 2}, up_to(5, 0)};
  const Given grid{{1, 2, 4, 2},
                   {-1, -1, -0.5, -0.5, -0.2, -0.2, 0, 0, 0, 0, -0.2, -0.2, 0.5, 0.5, 1, 1}};
  EXPECT_THAT(output_of("GridSample", {x, grid}), about({0, 0.5, 1.7, 2.5, 2.5, 1.7, 4.5, 1.25}));
}

TEST(AffineGrid, OfNoChangeIsTheCentresOfPlaces) {
  const Given theta{{1, 2, 3}, {1, 0, 0, 0, 1, 0}},
      size = Given::constant(DType::kI64, {1, 1, 1, 2});
  EXPECT_THAT(output_of("AffineGrid", {theta, size}), about({-0.5, 0, 0.5, 0}));
  EXPECT_THAT(output_of("AffineGrid", {theta, size}, {{"align_corners", int64_t{1}}}),
              about({-1, -1, 1, -1}));
}

TEST(RoiAlign, IsTheMeanOfPointsInEachBin) {
  // x[i, j] = 4 i + j is linear: a bin's mean is its value at the bin's centre.
  const Given x{{1, 1, 4, 4}, up_to(15, 0)}, rois{{1, 4}, {0, 0, 4, 4}};
  const Given image(DType::kI64, {1}, {0});
  const Attrs two{
      {"output_height", int64_t{2}}, {"output_width", int64_t{2}}, {"sampling_ratio", int64_t{2}}};
  EXPECT_THAT(output_of("RoiAlign", {x, rois, image}, two), about({2.5, 4.5, 10.5, 12.5}));
  EXPECT_THAT(why_not("RoiAlign", {x, rois, Given(DType::kI64, {1}, {1})}, two),
              HasSubstr("batch index 1 of 1 images"));
}

TEST(DeformConv, MovesItsTaps) {
  Reals offsets(32, 0.0);
  offsets[0] = 0.5;    // tap 0 of output 0, down
  offsets[21] = -0.1;  // tap 2 of output 1, across
  EXPECT_THAT(output_of("DeformConv", {{{1, 1, 3, 3}, up_to(8, 0)},
                                       {{1, 1, 2, 2}, {1, 1, 1, 1}},
                                       {{1, 8, 2, 2}, offsets}}),
              about({9.5, 11.9, 20, 24}));
}

TEST(Unpool, PutsValuesWhereTheyWere) {
  const Attrs square{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Given at(DType::kI64, {1, 1, 2, 2}, {5, 7, 13, 15});
  EXPECT_THAT(output_of("MaxUnpool", {{{1, 1, 2, 2}, up_to(4)}, at}, square),
              ElementsAre(0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4));
  EXPECT_THAT(output_of("LpPool", {{{1, 1, 3}, {3, -4, 0}}}, {{"kernel_shape", Ints{2}}}),
              about({5, 4}));
  // Two columns that share the middle of the image.
  EXPECT_THAT(output_of("Col2Im", {{{1, 2, 2}, {1, 2, 10, 20}},
                                   Given::constant(DType::kI64, {3}),
                                   Given::constant(DType::kI64, {2})}),
              ElementsAre(1, 12, 20));
}

TEST(Sequence, ProductsReversalsAndDeterminants) {
  const Given axis = Given::constant(DType::kI64, {0});
  EXPECT_THAT(output_of("CumProd", {{{4}, up_to(4)}, axis}), ElementsAre(1, 2, 6, 24));
  EXPECT_THAT(output_of("CumProd", {{{4}, up_to(4)}, axis},
                        {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}),
              ElementsAre(24, 12, 4, 1));
  EXPECT_THAT(output_of("ReverseSequence", {{{3, 2}, up_to(6)}, Given(DType::kI64, {2}, {3, 1})}),
              ElementsAre(5, 2, 3, 4, 1, 6));
  EXPECT_THAT(output_of("Det", {{{3, 2, 2}, {1, 2, 3, 4, 1, 2, 2, 1, 0, 3, 3, 1}}}),
              about({-2, -3, -9}));
}

}  // namespace
}  // namespace ndtrain
