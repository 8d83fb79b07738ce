#include "framework/passes/photo_input.h"

namespace ndtrain {
namespace {

constexpr int64_t kColours = 3;

Tensor of_colours(const std::array<float, kColours>& values) {
  return Tensor::of<float>(DType::kF32, {kColours}, {values.begin(), values.end()});
}

}  // namespace

Graph reading_photos(const Graph& g, const PhotoInput& photos) {
  const Shape empty;
  const Shape& x = g.inputs().size() == 1 ? g.shape(g.inputs()[0]) : empty;
  const int colours = photos.channels_last ? 3 : 1;
  if (x.rank() != 4 || x[colours] != kColours || g.type(g.inputs()[0]).dtype != DType::kF32) {
    throw Error("a network of photos reads f32 of one photo per row, not ",
                g.inputs().size() == 1 ? g.type(g.inputs()[0]) : TensorType{DType::kNone, {}});
  }
  const ValueId input = g.inputs()[0];
  const Shape bytes = photos.channels_last ? x : Shape{x[0], x[2], x[3], kColours};
  GraphCopy copy(g);
  Graph& to = copy.graph();
  ValueId floats =
      to.add1("NormalizePhotos", {to.add_input(g.value(input).name + "@u8", {DType::kU8, bytes}),
                                  to.add_constant("mean", of_colours(photos.mean)),
                                  to.add_constant("std", of_colours(photos.std))});
  if (photos.channels_last) floats = to.add1("Transpose", {floats}, {{"perm", Ints{0, 2, 3, 1}}});
  copy.replace(input, floats);
  for (const Node& n : g.nodes()) copy.copy(n);
  return copy.finish();
}

}  // namespace ndtrain
