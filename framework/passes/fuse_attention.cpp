// MatMul, Softmax, MatMul as one FusedAttention; a scale and a mask between the products go along.
#include <utility>

#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

P scaled(const P& p, const char* factor, const char* divisor) {
  return either({P("Mul", {p, factor}), P("Div", {p, divisor}), p});
}

// The product of all scales; none where one of them is no number.
std::optional<double> scale_of(const Matcher& m, const Bound& b) {
  static constexpr std::pair<const char*, bool> kDivides[] = {
      {"factor", false}, {"divisor", true}, {"q factor", false}, {"q divisor", true}};
  double scale = 1;
  for (const auto& [name, divides] : kDivides) {
    if (!b.has(name)) continue;
    const std::optional<double> by = m.number(b[name]);
    if (!by || *by == 0) return {};
    scale *= divides ? 1 / *by : *by;
  }
  return scale;
}

// As [B, H, T, D]: through the Transpose that made them, where that reads well.
ValueId upright(const Matcher& m, ValueId keys, GraphCopy& to) {
  const int made = m.producer(keys);
  const bool through = m.is(made, "Transpose");
  Ints perm = through ? m.node(made).attrs.ints("perm") : Ints{0, 1, 2, 3};
  std::swap(perm[2], perm[3]);
  return to.graph().add1("Transpose", {to.get(through ? m.input(made, 0) : keys)},
                         {{"perm", perm}});
}

std::optional<Match> attention(const Matcher& m, const Bound& b) {
  const Node& softmax = m.node(m.producer(b["weights"]));
  const Shape &s = m.shape(b["weights"]), &q = m.shape(b["q"]), &k = m.shape(b["keys"]),
              &v = m.shape(b["v"]);
  const std::optional<double> scale = scale_of(m, b);
  if (!scale || s.axis(softmax.attrs.i("axis"), "axis") != s.rank() - 1) return {};
  if (q.rank() != 4 || k != Shape{q[0], q[1], q[3], k[-1]} ||
      v != Shape{q[0], q[1], k[-1], v[-1]} || m.shape(b["y"]) != Shape{q[0], q[1], q[2], v[-1]}) {
    return {};
  }
  return Match{
      b.nodes, [&m, b, scale](GraphCopy& to) {
        std::vector<ValueId> in = {to.get(b["q"]), upright(m, b["keys"], to), to.get(b["v"])};
        if (b.has("mask")) in.push_back(to.get(b["mask"]));
        return to.graph().add1("FusedAttention", std::move(in), {{"scale", *scale}});
      }};
}

std::vector<Match> find_attention(const Matcher& m) {
  const P keys = either({P("Transpose", {"upright"}, "keys"), "keys"});
  const P product("MatMul", {scaled("q", "q factor", "q divisor"), keys});
  const P scores = scaled(product, "factor", "divisor");
  const P weights("Softmax", {either({P("Add", {scores, "mask"}), scores})}, "weights");
  return find_pattern(m, P("MatMul", {weights, "v"}, "y"),
                      [&](const Bound& b) { return attention(m, b); });
}

}  // namespace

const Rewrite kAttention{find_attention, Needs::kKernel};

}  // namespace ndtrain
