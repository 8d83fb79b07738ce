// Transpose: dim d of y is dim perm[d] of x. DepthToSpace and SpaceToDepth move blocks of a plane
// to channels and back (Shi et al., sub-pixel convolution, 2016).
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// ONNX's default, reversed dims, made explicit.
void complete(Attrs& attrs, std::span<const TensorType> in) {
  if (attrs.has("perm")) return;
  Ints perm;
  for (int d = in[0].shape.rank() - 1; d >= 0; --d) perm.push_back(d);
  attrs.set("perm", perm);
}

void infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const Ints& perm = c.attrs.ints("perm");
  if (static_cast<int>(perm.size()) != x.rank()) {
    throw Error("perm has ", perm.size(), " dims, the input is ", c.in[0]);
  }
  std::vector<bool> seen(perm.size(), false);
  std::vector<int64_t> dims;
  for (const int64_t p : perm) {
    if (p < 0 || p >= x.rank() || seen[static_cast<size_t>(p)]) {
      throw Error("perm is not a permutation: ", p, " is out of range or twice there");
    }
    seen[static_cast<size_t>(p)] = true;
    dims.push_back(x[static_cast<int>(p)]);
  }
  c.out = {{c.in[0].dtype, Shape(std::move(dims))}};
}

void reference(const ReferenceContext& c) {
  const std::vector<int64_t> strides = c.shape(0).strides();
  Ints steps;
  for (const int64_t p : c.attrs.ints("perm")) steps.push_back(strides[static_cast<size_t>(p)]);
  for_each_strided(c.out_shape(), steps, 0,
                   [&](int64_t i, int64_t at) { c.out[0][i] = c.in[0][at]; });
}

std::vector<ValueId> gradient(GradientContext& c) {
  const Ints& perm = c.node.attrs.ints("perm");
  Ints inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) {
    inverse[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  }
  return {c.g.add1("Transpose", {c.dy[0]}, {{"perm", inverse}})};
}

// The small side is [n, b*b*c, h, w], the deep one [n, c, h*b, w*b].
struct Blocks {
  int64_t n, c, h, w, b;
  bool column_first;  // CRD: channels come before the place in the block

  int64_t plane(int64_t dy, int64_t dx, int64_t channel) const {
    return column_first ? (channel * b + dy) * b + dx : (dy * b + dx) * c + channel;
  }

  // Calls f(index on the small side, index on the deep side).
  template <typename F>
  void for_each(F f) const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < c; ++k)
        for (int64_t y = 0; y < h * b; ++y)
          for (int64_t x = 0; x < w * b; ++x) {
            const int64_t p = plane(y % b, x % b, k);
            f(((i * c * b * b + p) * h + y / b) * w + x / b, ((i * c + k) * h * b + y) * w * b + x);
          }
  }
};

int64_t block_size(const Attrs& attrs, const TensorType& x) {
  const int64_t b = attrs.i("blocksize");
  if (x.shape.rank() != 4) throw Error("the input is ", x, ", must have rank 4");
  if (b < 1 || b > 1 << 16) throw Error("blocksize is ", b);
  return b;
}

Blocks blocks(const Attrs& attrs, const Shape& small) {
  const int64_t b = attrs.i("blocksize");
  const bool crd = attrs.has("mode") && attrs.s("mode") == "CRD";
  return {small[0], small[1] / (b * b), small[2], small[3], b, crd};
}

void to_space_infer(InferContext& c) {
  const int64_t b = block_size(c.attrs, c.in[0]);
  const Shape& x = c.shape(0);
  const std::string& mode = c.attrs.s("mode");
  if (mode != "DCR" && mode != "CRD") throw Error("mode is '", mode, "', must be DCR or CRD");
  if (x[1] % (b * b) != 0) throw Error(x[1], " channels do not divide by blocksize^2 = ", b * b);
  Shape y = x.with(1, x[1] / (b * b));
  y = y.with(2, x[2] * b);
  c.out = {{c.in[0].dtype, y.with(3, x[3] * b)}};
}

void to_depth_infer(InferContext& c) {
  const int64_t b = block_size(c.attrs, c.in[0]);
  const Shape& x = c.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0) throw Error(x, " does not divide by blocksize ", b);
  const Shape y = x.with(2, x[2] / b).with(3, x[3] / b);
  c.out = {{c.in[0].dtype, y.with(1, x[1] * b * b)}};
}

void to_space(const ReferenceContext& c) {
  blocks(c.attrs, c.shape(0)).for_each([&](int64_t small, int64_t deep) {
    c.out[0][deep] = c.in[0][small];
  });
}

void to_depth(const ReferenceContext& c) {
  blocks(c.attrs, c.out_shape()).for_each([&](int64_t small, int64_t deep) {
    c.out[0][small] = c.in[0][deep];
  });
}

// CRD has no inverse op: dy is taken apart by Reshape and Transpose.
std::vector<ValueId> to_space_gradient(GradientContext& c) {
  const Attrs& attrs = c.node.attrs;
  const Shape x = c.shape(c.x(0));
  const Blocks k = blocks(attrs, x);
  if (!k.column_first) {
    return {c.g.add1("SpaceToDepth", {c.dy[0]}, {{"blocksize", attrs.i("blocksize")}})};
  }
  const ValueId parts = reshape(c.g, c.dy[0], {k.n, k.c, k.h, k.b, k.w, k.b});
  return {reshape(c.g, c.g.add1("Transpose", {parts}, {{"perm", Ints{0, 1, 3, 5, 2, 4}}}), x)};
}

std::vector<ValueId> to_depth_gradient(GradientContext& c) {
  return {c.g.add1("DepthToSpace", {c.dy[0]}, {{"blocksize", c.node.attrs.i("blocksize")}})};
}

std::vector<Example> examples() {
  const auto perm = [](Ints p) { return Attrs{{"perm", std::move(p)}}; };
  std::vector<Example> list = {
      {{{2, 3}}},
      {{{2, 3, 4}}},
      {{{2, 3, 4}}, perm({1, 0, 2})},
      {{{2, 3, 4, 5}}, perm({0, 2, 3, 1})},
      {{{2, 3, 4, 5}}, perm({0, 3, 1, 2})},
      {{{2, 3, 4, 5}}, perm({0, 1, 3, 2})},
      {{{2, 3, 2, 3, 2}}, perm({2, 0, 3, 4, 1})},
      {{{17, 19}}, perm({1, 0})},
      {{{5}}, perm({0})},
      {{Shape{}}},
      {{{0, 3}}, perm({1, 0})},
  };
  for (const DType t : kMovedDTypes) {
    list.push_back({{{t, {2, 3, 4}}}, perm({2, 0, 1})});
  }
  return list;
}

}  // namespace

std::vector<OpDef> transpose_ops() {
  const AttrSpec blocksize{.name = "blocksize", .kind = AttrSpec::Kind::kInt, .required = true};
  const auto by = [](int64_t b, const char* mode) {
    return Attrs{{"blocksize", b}, {"mode", std::string(mode)}};
  };
  return {
      {.name = "Transpose",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst}),
       .attrs = {{"perm", AttrSpec::Kind::kInts}},
       .complete = complete,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .examples = examples()},
      {.name = "DepthToSpace",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image}),
       .attrs = {blocksize, {"mode", AttrSpec::Kind::kString, Attr(std::string("DCR"))}},
       .infer = to_space_infer,
       .reference = to_space,
       .gradient = to_space_gradient,
       .examples = {{{{2, 8, 2, 3}}, by(2, "DCR")},
                    {{{2, 8, 2, 3}}, by(2, "CRD")},
                    {{{1, 9, 1, 2}}, by(3, "CRD")},
                    {{{DType::kF16, {1, 4, 2, 2}}}, by(2, "DCR")},
                    {{{DType::kBF16, {1, 4, 2, 2}}}, by(2, "DCR")},
                    {{{DType::kI64, {1, 4, 2, 2}}}, by(2, "CRD")}}},
      {.name = "SpaceToDepth",
       .facts = moving({.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image}),
       .attrs = {blocksize},
       .infer = to_depth_infer,
       .reference = to_depth,
       .gradient = to_depth_gradient,
       .examples = {{{{2, 2, 4, 6}}, {{"blocksize", int64_t{2}}}},
                    {{{1, 1, 3, 6}}, {{"blocksize", int64_t{3}}}},
                    {{{DType::kF16, {1, 2, 2, 2}}}, {{"blocksize", int64_t{2}}}},
                    {{{DType::kBF16, {1, 2, 2, 2}}}, {{"blocksize", int64_t{2}}}},
                    {{{DType::kI64, {1, 2, 2, 2}}}, {{"blocksize", int64_t{2}}}}}},
  };
}

}  // namespace ndtrain
