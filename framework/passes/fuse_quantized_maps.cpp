// Averages of windows of bytes, products of maps by a factor each, and batch normalisation of
// joined maps, as QDQ writes them, on the bytes: FusedQLinearAveragePool, FusedQLinearMul and
// FusedQLinearBatchNorm, for devices that have them. With the first two squeeze-and-excitation
// needs no map in f32, with the last no layer of DenseNet.
#include <algorithm>

#include "framework/core/limits.h"
#include "framework/passes/fold.h"
#include "framework/passes/linear.h"
#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

bool is_mean_of_planes(const Matcher& m, int i) {
  if (!m.is(i, "ReduceMean") || m.shape(m.input(i, 0)).rank() != 4) return false;
  return m.shape(m.result(i)) == m.shape(m.input(i, 0)).with(2, 1).with(3, 1);
}

bool is_average(const Matcher& m, int i) {
  return m.is(i, "AveragePool") || m.is(i, "GlobalAveragePool") || is_mean_of_planes(m, i);
}

// As attributes of an AveragePool.
Attrs window_of(const Matcher& m, int i) {
  if (m.is(i, "AveragePool")) return m.node(i).attrs;
  const std::vector<int64_t> dims = m.shape(m.input(i, 0)).dims();
  return {{"kernel_shape", Ints(dims.begin() + 2, dims.end())}};
}

std::optional<Match> average(const Matcher& m, const Bound& b) {
  const std::optional<Linear> x = dequantized_bytes(m, b["x"]), y = quantized_bytes(m, b["y"]);
  if (!x || !y) return {};
  const Attrs window = window_of(m, m.producer(b["pooled"]));
  return Match{b.nodes, [=](GraphCopy& to) {
                 std::vector<ValueId> in;
                 add_scaled(*x, to, in);
                 add_scale(*y, to, in);
                 return to.graph().add1("FusedQLinearAveragePool", std::move(in), window);
               }};
}

// The larger operand comes first.
std::optional<Match> scaled_maps(const Matcher& m, const Bound& b) {
  ValueId maps = b["a"], factors = b["b"];
  if (m.shape(maps) != m.shape(b["product"])) std::swap(maps, factors);
  if (m.shape(maps) != m.shape(b["product"])) return {};
  const std::optional<Linear> x = dequantized_bytes(m, maps), f = dequantized_bytes(m, factors),
                              y = quantized_bytes(m, b["y"]);
  if (!x || !f || !y) return {};
  return Match{b.nodes, [=](GraphCopy& to) {
                 std::vector<ValueId> in;
                 add_scaled(*x, to, in);
                 add_scaled(*f, to, in);
                 add_scale(*y, to, in);
                 return to.graph().add1("FusedQLinearMul", std::move(in));
               }};
}

// The bytes of which `v` consists, joined by channels where that is done; empty: it is of others.
std::vector<Linear> joined_bytes(const Matcher& m, ValueId v) {
  if (std::optional<Linear> bytes = dequantized_bytes(m, v)) return {*std::move(bytes)};
  const int i = m.producer(v);
  if (!m.is(i, "Concat") || m.shape(v).axis(m.node(i).attrs.i("axis"), "axis") != 1) return {};
  std::vector<Linear> all;
  for (const ValueId part : m.node(i).inputs) {
    const std::vector<Linear> bytes = joined_bytes(m, part);
    if (bytes.empty()) return {};
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

Tensor per_channel(const std::vector<double>& values) {
  return Tensor::from_doubles({DType::kF32, {static_cast<int64_t>(values.size())}}, values);
}

// (x - zero) * scale of each part in the factor and the offset of its channels, and both in steps
// of y.
std::optional<Match> normalised_maps(const Matcher& m, const Bound& b) {
  const int bn = m.producer(b["normal"]);
  const std::optional<Linear> y = quantized_bytes(m, b["y"]);
  const std::vector<Linear> maps = joined_bytes(m, m.input(bn, 0));
  constexpr size_t kOthers = 3;
  if (!y || maps.empty() || maps.size() + kOthers > limits::kPorts) return {};
  if (m.node(bn).attrs.flag("training_mode")) return {};
  for (size_t k = 1; k < 5; ++k) {
    if (!m.is_fixed(m.input(bn, k))) return {};
  }
  // No number below 0 is left of those behind a Relu where 0 is the lowest byte.
  const bool lowest = y->zero_point == (y->dtype == DType::kU8 ? 0 : -128);
  if (b.has("x") && !lowest) return {};
  const auto data = [&](size_t k) { return m.graph().value(m.input(bn, k)).data; };
  ChannelAffine affine =
      batch_norm_affine(data(1), data(2), data(3), data(4), m.node(bn).attrs.f("epsilon"));
  size_t c = 0;
  for (const Linear& x : maps) {
    for (int64_t of = 0; of < m.shape(x.stored)[1]; ++of, ++c) {
      affine.offset[c] -= x.zero_point * x.scales[0] * affine.factor[c];
      affine.factor[c] *= x.scales[0] / y->scales[0];
      affine.offset[c] /= y->scales[0];
    }
  }
  return Match{b.nodes, [=](GraphCopy& to) {
                 std::vector<ValueId> in;
                 add_scale(*y, to, in);
                 const ValueId y_zero = in.back();
                 in = {to.graph().add_constant("", per_channel(affine.factor)),
                       to.graph().add_constant("", per_channel(affine.offset)), y_zero};
                 for (const Linear& x : maps) in.push_back(to.get(x.stored));
                 return to.graph().add1("FusedQLinearBatchNorm", std::move(in));
               }};
}

std::vector<Match> find_quantized_maps(const Matcher& m) {
  std::vector<Match> all =
      find_pattern(m, P("QuantizeLinear", {P(is_average, {"x"}, "pooled")}, "y"),
                   [&](const Bound& b) { return average(m, b); });
  std::vector<Match> products =
      find_pattern(m, P("QuantizeLinear", {P("Mul", {"a", "b"}, "product")}, "y"),
                   [&](const Bound& b) { return scaled_maps(m, b); });
  const P normal("BatchNormalization", {}, "normal");
  std::vector<Match> normals =
      find_pattern(m, P("QuantizeLinear", {either({P("Relu", {normal}, "x"), normal})}, "y"),
                   [&](const Bound& b) { return normalised_maps(m, b); });
  for (std::vector<Match>* more : {&products, &normals}) {
    std::ranges::move(*more, std::back_inserter(all));
  }
  return all;
}

}  // namespace

const Rewrite kQuantizedMaps{find_quantized_maps, Needs::kLayout};

}  // namespace ndtrain
