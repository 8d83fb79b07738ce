// NormalizePhotos: from crops as they are kept, u8 [N, H, W, 3], to what a network reads:
//   y[n, c, h, w] = (x[n, h, w, c] / 255 - mean[c]) / std[c], in f32 and in that order.
// For devices to which bytes travel faster than floats.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

constexpr int64_t kColours = 3;

void infer(InferContext& c) {
  require(
      c, 0, [](DType t) { return t == DType::kU8; }, "u8");
  const Shape& x = c.shape(0);
  if (x.rank() != 4 || x[3] != kColours) throw Error("photos are [N, H, W, 3], not ", x);
  for (size_t i = 1; i < 3; ++i) {
    require(
        c, i, [](DType t) { return t == DType::kF32; }, "f32");
    if (c.shape(i) != Shape{kColours}) throw Error("input ", i, " is ", c.shape(i), ", not [3]");
  }
  c.out.push_back({DType::kF32, {x[0], kColours, x[1], x[2]}});
}

void reference(const ReferenceContext& c) {
  const Shape& x = c.shape(0);
  const int64_t pixels = x[1] * x[2];
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t colour = i % kColours, pixel = i / kColours % pixels,
                  photo = i / kColours / pixels;
    const auto value = static_cast<float>(c.in[0][i]) / 255.0F;
    const auto mean = static_cast<float>(c.in[1][colour]),
               std = static_cast<float>(c.in[2][colour]);
    c.out[0][(photo * kColours + colour) * pixels + pixel] = (value - mean) / std;
  }
}

std::vector<Example> examples() {
  const auto photos = [](Shape s) { return ExampleInput::range(std::move(s), 0, 255, DType::kU8); };
  const auto each = [](std::vector<double> v) {
    ExampleInput e = ExampleInput::given(DType::kF32, {3}, std::move(v));
    e.known = true;
    return e;
  };
  const ExampleInput mean = each({0.485, 0.456, 0.406}), std = each({0.229, 0.224, 0.225});
  return {{.inputs = {photos({2, 4, 5, 3}), mean, std}, .check_gradient = false},
          {.inputs = {photos({1, 33, 31, 3}), mean, std}, .check_gradient = false}};
}

}  // namespace

std::vector<OpDef> normalize_photos_ops() {
  return {{.name = "NormalizePhotos",
           .facts = {.own_dtype = true},
           .min_inputs = 3,
           .max_inputs = 3,
           .infer = infer,
           .reference = reference,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
