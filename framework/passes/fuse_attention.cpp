// MatMul, Softmax, MatMul as one FusedAttention; a scale and a mask between the products go along.
#include <utility>

#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

// The number that node `i` multiplies by; none where it does something else.
std::optional<double> factor(const Matcher& m, int i) {
  const bool divides = m.is(i, "Div");
  if (!divides && !m.is(i, "Mul")) return {};
  std::optional<double> by = m.number(m.input(i, 1));
  if (!by && !divides) by = m.number(m.input(i, 0));
  if (!by || *by == 0) return {};
  return divides ? 1 / *by : *by;
}

bool is_scale(const Matcher& m, int i) { return factor(m, i).has_value(); }
P scaled(const P& p) { return either({P(is_scale, {p}), p}); }

// As [B, H, T, D]: through the Transpose that made them, where that reads well.
ValueId upright(const Matcher& m, ValueId keys, GraphCopy& to) {
  const int made = m.producer(keys);
  const bool through = m.is(made, "Transpose");
  Ints perm = through ? m.node(made).attrs.ints("perm") : Ints{0, 1, 2, 3};
  std::swap(perm[2], perm[3]);
  return to.graph().add1("Transpose", {to.get(through ? m.input(made, 0) : keys)},
                         {{"perm", perm}});
}

bool is_softmax_of_rows(const Matcher& m, int i) {
  const Shape& s = m.shape(m.result(i));
  return m.is(i, "Softmax") && s.axis(m.node(i).attrs.i("axis"), "axis") == s.rank() - 1;
}

std::optional<Match> attention(const Matcher& m, const Bound& b) {
  const Shape &q = m.shape(b["q"]), &k = m.shape(b["keys"]), &v = m.shape(b["v"]);
  if (q.rank() != 4 || k != Shape{q[0], q[1], q[3], k[-1]} ||
      v != Shape{q[0], q[1], k[-1], v[-1]} || m.shape(b["y"]) != Shape{q[0], q[1], q[2], v[-1]}) {
    return {};
  }
  double scale = 1;
  for (const int i : b.nodes) scale *= factor(m, i).value_or(1);
  return Match{
      b.nodes, [&m, b, scale](GraphCopy& to) {
        std::vector<ValueId> in = {to.get(b["q"]), upright(m, b["keys"], to), to.get(b["v"])};
        if (b.has("mask")) in.push_back(to.get(b["mask"]));
        return to.graph().add1("FusedAttention", std::move(in), {{"scale", scale}});
      }};
}

std::vector<Match> find_attention(const Matcher& m) {
  const P keys = either({P("Transpose", {"upright"}, "keys"), "keys"});
  const P scores = scaled(P("MatMul", {scaled("q"), keys}));
  const P weights(is_softmax_of_rows, {either({P("Add", {scores, "mask"}), scores})});
  return find_pattern(m, P("MatMul", {weights, "v"}, "y"),
                      [&](const Bound& b) { return attention(m, b); });
}

}  // namespace

const Rewrite kAttention{find_attention, Needs::kKernel};

}  // namespace ndtrain
