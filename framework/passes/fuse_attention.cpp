// MatMul, Softmax, MatMul as one FusedAttention; a scale and a mask between the products go along,
// and Transposes that only bring heads before rows and back, also where these move its bytes.
#include <algorithm>
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

const Ints kAsTheyAre = {0, 1, 2, 3}, kRowsFirst = {0, 2, 1, 3};

// A value with its dims in another order, read before the Transpose that made it.
struct Reordered {
  ValueId from;
  Ints perm;

  bool is_free() const { return perm == kAsTheyAre; }
  ValueId in(GraphCopy& to) const {
    if (is_free()) return to.get(from);
    return to.graph().add1("Transpose", {to.get(from)}, {{"perm", perm}});
  }
};

Reordered reordered(const Matcher& m, ValueId v, Ints perm) {
  const int made = m.producer(v);
  if (perm == kAsTheyAre || !m.is(made, "Transpose")) return {v, std::move(perm)};
  const Ints& before = m.node(made).attrs.ints("perm");
  for (int64_t& d : perm) d = before[static_cast<size_t>(d)];
  return {m.input(made, 0), std::move(perm)};
}

bool is_softmax_of_rows(const Matcher& m, int i) {
  const Shape& s = m.shape(m.result(i));
  return m.is(i, "Softmax") && s.axis(m.node(i).attrs.i("axis"), "axis") == s.rank() - 1;
}

bool is_rows_first(const Matcher& m, int i) {
  return m.is(i, "Transpose") && m.node(i).attrs.ints("perm") == kRowsFirst;
}

// Where its result has rows before heads, so have queries, keys and values at no cost.
std::optional<Match> attention(const Matcher& m, const Bound& b, bool rows_first, int outputs) {
  const Shape &q = m.shape(b["q"]), &k = m.shape(b["keys"]), &v = m.shape(b["v"]);
  if (q.rank() != 4 || k != Shape{q[0], q[1], q[3], k[-1]} ||
      v != Shape{q[0], q[1], k[-1], v[-1]} || m.shape(b["y"]) != Shape{q[0], q[1], q[2], v[-1]}) {
    return {};
  }
  const Ints order = rows_first ? kRowsFirst : kAsTheyAre;
  const Reordered in[] = {reordered(m, b["q"], order),
                          reordered(m, b["keys"], rows_first ? Ints{0, 3, 1, 2} : Ints{0, 1, 3, 2}),
                          reordered(m, b["v"], order)};
  if (rows_first && !std::ranges::all_of(in, &Reordered::is_free)) return {};
  double scale = 1;
  for (const int i : b.nodes) scale *= factor(m, i).value_or(1);
  const Attrs attrs = {{"scale", scale}, {"heads_axis", int64_t{rows_first ? 2 : 1}}};
  const int bytes = b.has("bytes") ? m.producer(b["bytes"]) : -1;
  if (bytes >= 0 && m.shape(b["step"]).count() != 1) return {};
  const Node quantize = bytes >= 0 ? m.node(bytes) : Node{};
  const auto build = [b, attrs, quantize, outputs, q_in = in[0], k_in = in[1],
                      v_in = in[2]](GraphCopy& to) {
    std::vector<ValueId> all = {q_in.in(to), k_in.in(to), v_in.in(to)};
    if (b.has("mask")) all.push_back(to.get(b["mask"]));
    Graph& g = to.graph();
    const ValueId y = g.add("FusedAttention", std::move(all), attrs, outputs)[0];
    if (quantize.op.empty()) return y;
    return g.add1(quantize.op, {y, to.get(b["step"]), to.get(b["zero"])}, quantize.attrs);
  };
  return Match{b.nodes, build};
}

template <bool kRowsBeforeHeads, bool kTrained>
std::vector<Match> find_attention(const Matcher& m) {
  const P keys = either({P("Transpose", {"upright"}, "keys"), "keys"});
  const P scores = scaled(P("MatMul", {scaled("q"), keys}));
  const P weights(is_softmax_of_rows, {either({P("Add", {scores, "mask"}), scores})});
  const P y("MatMul", {weights, "v"}, "y");
  const P bytes("QuantizeLinear", {y, "step", "zero"}, "bytes");
  const std::vector<bool> learned = depends_on(m.graph(), m.graph().params());
  return find_pattern(m, kRowsBeforeHeads ? P(is_rows_first, {either({bytes, y})}) : y,
                      [&](const Bound& b) -> std::optional<Match> {
                        if (kTrained && b.has("mask") && learned[index(b["mask"])]) return {};
                        return attention(m, b, kRowsBeforeHeads, kTrained ? 2 : 1);
                      });
}

}  // namespace

const Rewrite kAttentionOfRows{find_attention<true, false>, Needs::kAnyKernel};
const Rewrite kAttention{find_attention<false, false>, Needs::kAnyKernel};
const Rewrite kTrainedAttentionOfRows{find_attention<true, true>, Needs::kAnyKernel};
const Rewrite kTrainedAttention{find_attention<false, true>, Needs::kAnyKernel};

}  // namespace ndtrain
