// LRN across channels: y[c] = x[c] / s[c]^beta, s[c] = bias + alpha / size * sum of x[j]^2 over the
// `size` channels around c, floor((size - 1) / 2) of them before it (ONNX opset 13; Krizhevsky et
// al. 2012). LRNGrad: dx[c] = dy[c] * s[c]^-beta
//                  - 2 alpha beta / size * x[c] * sum of dy[j] x[j] s[j]^(-beta-1) over j that see
//                  c.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

void infer(InferContext& c) {
  same_float_type(c);
  if (c.shape(0).rank() < 2)
    throw Error("input ", c.shape(0), " has no channels (expected [N, C, …])");
  if (c.attrs.i("size") < 1) throw Error("size is ", c.attrs.i("size"), ", expected at least 1");
}

// The channels that one channel's sum goes over; `mirrored`: those whose sums it is part of.
struct Neighbours {
  int64_t before, after, channels;

  Neighbours(const Attrs& a, const Shape& x, bool mirrored = false) : channels(x[1]) {
    const int64_t size = a.i("size");
    before = mirrored ? size / 2 : (size - 1) / 2;
    after = size - 1 - before;
  }
  int64_t first(int64_t c) const { return before > c ? 0 : c - before; }
  int64_t last(int64_t c) const { return after > channels - 1 - c ? channels - 1 : c + after; }
};

// Calls f(start, step) for every line of channels.
template <typename F>
void for_each_line(const Shape& x, const F& f) {
  const int64_t plane = x.count(2, x.rank());
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t i = 0; i < plane; ++i) f(n * x[1] * plane + i, plane);
  }
}

std::vector<double> sums(const Attrs& a, const Shape& shape, const std::vector<double>& x) {
  const Neighbours near(a, shape);
  const double share = a.f("alpha") / static_cast<double>(a.i("size"));
  std::vector<double> s(x.size(), a.f("bias"));
  for_each_line(shape, [&](int64_t start, int64_t step) {
    for (int64_t c = 0; c < near.channels; ++c) {
      for (int64_t j = near.first(c); j <= near.last(c); ++j) {
        const double v = x[start + j * step];
        s[start + c * step] += share * v * v;
      }
    }
  });
  return s;
}

void reference(const ReferenceContext& c) {
  const std::vector<double> s = sums(c.attrs, c.shape(0), c.in[0]);
  const double beta = c.attrs.f("beta");
  for (size_t i = 0; i < s.size(); ++i) c.out[0][i] = c.in[0][i] * std::pow(s[i], -beta);
}

void grad_reference(const ReferenceContext& c) {
  const Shape& shape = c.shape(1);
  const std::vector<double>&dy = c.in[0], &x = c.in[1];
  const std::vector<double> s = sums(c.attrs, shape, x);
  const Neighbours near(c.attrs, shape, true);
  const double beta = c.attrs.f("beta");
  const double factor = 2 * c.attrs.f("alpha") * beta / static_cast<double>(c.attrs.i("size"));
  for_each_line(shape, [&](int64_t start, int64_t step) {
    for (int64_t k = 0; k < near.channels; ++k) {
      const int64_t i = start + k * step;
      double sum = 0;
      for (int64_t j = near.first(k); j <= near.last(k); ++j) {
        const int64_t at = start + j * step;
        sum += dy[at] * x[at] * std::pow(s[at], -beta - 1);
      }
      c.out[0][i] = dy[i] * std::pow(s[i], -beta) - factor * x[i] * sum;
    }
  });
}

std::vector<ValueId> gradient(GradientContext& c) {
  return {c.g.add1("LRNGrad", {c.dy[0], c.x(0)}, c.node.attrs)};
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return std::min(a.i("size"), std::max<int64_t>(1, in[0].shape[1]));
}

std::vector<Example> examples(bool grad) {
  std::vector<Example> all;
  const auto add = [&](Shape x, Attrs attrs, DType t = DType::kF32) {
    Example e{.inputs = {{t, x}}, .attrs = std::move(attrs), .check_gradient = t != DType::kF16};
    if (grad) e.inputs.push_back({t, x});
    all.push_back(std::move(e));
  };
  const Attrs strong{{"size", 3}, {"alpha", 0.9}, {"beta", 0.5}, {"bias", 2.0}};
  add({2, 7, 3, 4}, {{"size", 5}});
  add({1, 6, 2, 2}, strong);
  add({3, 5, 4}, {{"size", 4}, {"alpha", 0.5}});
  add({2, 3}, {{"size", 1}, {"alpha", 0.5}});
  add({1, 3, 2, 2}, {{"size", 9}, {"alpha", 0.5}});
  add({1, 6, 2, 2}, strong, DType::kF64);
  if (!grad) add({1, 6, 2, 2}, strong, DType::kF16);
  return all;
}

}  // namespace

std::vector<OpDef> lrn_ops() {
  const std::vector<AttrSpec> attrs = {{"alpha", Kind::kFloat, Attr(1e-4)},
                                       {"beta", Kind::kFloat, Attr(0.75)},
                                       {"bias", Kind::kFloat, Attr(1.0)},
                                       {"size", Kind::kInt, {}, true}};
  return {
      {.name = "LRN",
       .facts = {.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image},
       .attrs = attrs,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .terms = terms,
       .examples = examples(false)},
      {.name = "LRNGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = attrs,
       .infer = infer,
       .reference = grad_reference,
       .terms = terms,
       .examples = examples(true)},
  };
}

}  // namespace ndtrain
