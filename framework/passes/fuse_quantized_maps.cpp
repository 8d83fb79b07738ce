// Averages of windows of bytes and products of maps by a factor each, as QDQ writes them, on the
// bytes: FusedQLinearAveragePool and FusedQLinearMul, for devices that have them. With both,
// squeeze-and-excitation needs no map in f32.
#include <algorithm>

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

std::vector<Match> find_quantized_maps(const Matcher& m) {
  std::vector<Match> all =
      find_pattern(m, P("QuantizeLinear", {P(is_average, {"x"}, "pooled")}, "y"),
                   [&](const Bound& b) { return average(m, b); });
  std::vector<Match> products =
      find_pattern(m, P("QuantizeLinear", {P("Mul", {"a", "b"}, "product")}, "y"),
                   [&](const Bound& b) { return scaled_maps(m, b); });
  std::ranges::move(products, std::back_inserter(all));
  return all;
}

}  // namespace

const Rewrite kQuantizedMaps{find_quantized_maps, Needs::kLayout};

}  // namespace ndtrain
