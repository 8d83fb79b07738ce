// AffineGrid: the grid of GridSample for a linear map of each image: for every place of an image of
// `size` [N, C, …] theta [N, d, d + 1] times its coordinates, which run from -1 to 1, and 1. In a
// graph it is a product with the coordinates.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of one image

Ints plane_of(const Ints& size) { return {size.begin() + 2, size.end()}; }

// [places, d + 1], the last dim's coordinate first, then 1.
std::vector<double> coordinates(const Ints& plane, bool align) {
  int64_t places = 1;
  for (const int64_t n : plane) places *= n;
  std::vector<double> all;
  for (int64_t p = 0; p < places; ++p) {
    int64_t rest = p;
    for (size_t d = plane.size(); d-- > 0; rest /= plane[d]) {
      const auto n = static_cast<double>(plane[d]), at = static_cast<double>(rest % plane[d]);
      all.push_back(align ? (n > 1 ? 2 * at / (n - 1) - 1 : -1) : (2 * at + 1) / n - 1);
    }
    all.push_back(1);
  }
  return all;
}

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Ints size = c.ints(1);
  const Shape& theta = c.shape(0);
  const auto d = static_cast<int64_t>(size.size()) - 2;
  if ((d != 2 && d != 3) || theta != Shape{size[0], d, d + 1}) {
    throw Error("theta is ", c.in[0], " and size ", Shape(size),
                ", must be [N, d, d + 1] and [N, C, …] with d dims, 2 or 3");
  }
  Ints dims = plane_of(size);
  if (Shape(dims).count() > kMostPlaces) throw Error("size ", Shape(size), " is too large");
  dims.insert(dims.begin(), size[0]);
  dims.push_back(d);
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void reference(const ReferenceContext& c) {
  const std::vector<double> at = coordinates(plane_of(c.ints(1)), c.attrs.flag("align_corners"));
  const int64_t d = c.shape(0)[1], places = static_cast<int64_t>(at.size()) / (d + 1);
  for (int64_t i = 0; i < c.shape(0)[0] * places * d; ++i) {
    const int64_t image = i / d / places, place = i / d % places;
    for (int64_t k = 0; k <= d; ++k) {
      c.out[0][i] += c.in[0][(image * d + i % d) * (d + 1) + k] * at[place * (d + 1) + k];
    }
  }
}

std::vector<ValueId> compose(ComposeContext& c) {
  const std::vector<double> at =
      coordinates(plane_of(c.g.value(c.x(1)).data.to_ints()), c.node.attrs.flag("align_corners"));
  const int64_t d = c.shape(0)[1];
  const TensorType type{c.g.type(c.x(0)).dtype, {static_cast<int64_t>(at.size()) / (d + 1), d + 1}};
  const ValueId upright = c.g.add1("Transpose", {c.x(0)}, {{"perm", Ints{0, 2, 1}}});
  const ValueId places = c.g.add_constant("", Tensor::from_doubles(type, at));
  const Shape y = c.out_shape();
  return {reshape(c.g, c.g.add1("MatMul", {places, upright}), y)};
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const Attrs align{{"align_corners", int64_t{1}}};
  return {{{{2, 2, 3}, E::ints({2, 3, 4, 5})}},
          {{{1, 2, 3}, E::ints({1, 1, 2, 3})}, align},
          {{{1, 3, 4}, E::ints({1, 1, 2, 3, 4})}},
          {{{DType::kF64, {1, 3, 4}}, E::ints({1, 1, 2, 2, 2})}, align}};
}

}  // namespace

std::vector<OpDef> affine_grid_ops() {
  return {{.name = "AffineGrid",
           .facts = {.onnx = 20},
           .min_inputs = 2,
           .max_inputs = 2,
           .attrs = {{"align_corners", AttrSpec::Kind::kInt, Attr(int64_t{0})}},
           .infer = infer,
           .reference = reference,
           .shape_inputs = 0b10,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
