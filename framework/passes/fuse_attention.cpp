// MatMul, Softmax, MatMul as one FusedAttention; a scale and a mask between the products go along,
// and Transposes that only bring heads before rows and back, also where these move its bytes, and a
// Split of queries, keys and values before them. So do Reshapes that split the images into photos
// and windows for a mask of each window, and join them again.
#include <algorithm>
#include <utility>

#include "framework/graph/constants.h"
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

// Of what a Split and Reshapes made queries, keys and values [B, S, H, D]: the value before them.
std::optional<ValueId> packed_source(const Matcher& m, const Reordered (&in)[3]) {
  int split = -1;
  for (size_t i = 0; i < 3; ++i) {
    const int made = m.producer(in[i].from);
    if (!m.is(made, "Reshape") || m.shape(in[i].from) != m.shape(in[0].from)) return {};
    const ValueId part = m.input(made, 0);
    if (i == 0) split = m.producer(part);
    if (!m.is(split, "Split") || m.producer(part) != split) return {};
    const Node& n = m.node(split);
    if (n.outputs.size() != 3 || n.outputs[i] != part || m.shape(part).rank() != 3 ||
        m.shape(part).axis(n.attrs.i("axis"), "axis") != 2) {
      return {};
    }
    const Shape &rows = m.shape(part), &heads = m.shape(in[i].from);
    if (rows[0] != heads[0] || rows[1] != heads[1]) return {};
  }
  return m.input(split, 0);
}

// What is added to the scores: to those of all images, and to those of each window of a photo.
struct Masks {
  ValueId of_all = kNone, of_windows = kNone;
  Ints windows = {};  // dims of the latter as those of scores
  bool fixed = false;

  bool present() const { return of_all != kNone || of_windows != kNone; }
  ValueId in(GraphCopy& to) const;
};

// A node, or what it gives where its inputs are `fixed`.
ValueId add_folded(Graph& g, const char* op, std::vector<ValueId> in, bool fixed) {
  const ValueId y = g.add1(op, std::move(in));
  const Node n = g.nodes().back();
  if (!fixed || !worth_folding(g, n)) return y;
  return g.add_constant("", std::move(run_on_constants(g, n).at(0)));
}

ValueId Masks::in(GraphCopy& to) const {
  if (of_windows == kNone) return to.get(of_all);
  Graph& g = to.graph();
  const ValueId mask =
      add_folded(g, "Reshape", {to.get(of_windows), g.add_constant("", windows)}, fixed);
  return of_all == kNone ? mask : add_folded(g, "Add", {to.get(of_all), mask}, fixed);
}

// None where it is not the images of `scores` that are split, into photos and windows, or a mask
// differs from photo to photo.
std::optional<Masks> masks_of(const Matcher& m, const Bound& b, const Shape& scores) {
  Masks masks{.of_all = b.has("mask") ? b["mask"] : kNone};
  if (!b.has("windows")) return masks;
  const Shape &split = m.shape(b["split"]), &of_windows = m.shape(b["windows"]);
  if (split.rank() != 5 || of_windows.rank() > 5 ||
      split != Shape{split[0], split[1], scores[1], scores[2], scores[3]}) {
    return {};
  }
  if (b.has("mask")) {
    const Shape& all = m.shape(b["mask"]);
    if (all.rank() > 4 || (all.rank() == 4 && all[0] != 1)) return {};
  }
  Ints dims(static_cast<size_t>(5 - of_windows.rank()), 1);
  dims.insert(dims.end(), of_windows.dims().begin(), of_windows.dims().end());
  if (dims[0] != 1) return {};
  masks.of_windows = b["windows"];
  masks.windows = Ints(dims.begin() + 1, dims.end());
  masks.fixed = m.is_fixed(b["windows"]) && (!b.has("mask") || m.is_fixed(b["mask"]));
  return masks;
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
  const std::optional<Masks> masks = masks_of(m, b, {q[0], q[1], q[2], k[-1]});
  if (!masks) return {};
  const Ints order = rows_first ? kRowsFirst : kAsTheyAre;
  const Reordered in[] = {reordered(m, b["q"], order),
                          reordered(m, b["keys"], rows_first ? Ints{0, 3, 1, 2} : Ints{0, 1, 3, 2}),
                          reordered(m, b["v"], order)};
  if (rows_first && !std::ranges::all_of(in, &Reordered::is_free)) return {};
  double scale = 1;
  for (const int i : b.nodes) scale *= factor(m, i).value_or(1);
  const std::optional<ValueId> packed = rows_first ? packed_source(m, in) : std::nullopt;
  const Attrs attrs = {{"scale", scale},
                       {"heads_axis", int64_t{rows_first ? 2 : 1}},
                       {"packed", int64_t{packed ? 1 : 0}}};
  const int bytes = b.has("bytes") ? m.producer(b["bytes"]) : -1;
  if (bytes >= 0 && m.shape(b["step"]).count() != 1) return {};
  const Node quantize = bytes >= 0 ? m.node(bytes) : Node{};
  const auto build = [b, attrs, quantize, outputs, packed, masks = *masks, q_in = in[0],
                      k_in = in[1], v_in = in[2],
                      of = Shape{q[0], q[2], 3 * q[1], q[3]}](GraphCopy& to) {
    Graph& g = to.graph();
    std::vector<ValueId> all(3, kNone);
    if (packed) {
      all[0] = g.add1("Reshape", {to.get(*packed), g.add_constant("", of.dims())});
    } else {
      all = {q_in.in(to), k_in.in(to), v_in.in(to)};
    }
    if (masks.present()) all.push_back(masks.in(to));
    const ValueId y = g.add("FusedAttention", std::move(all), attrs, outputs)[0];
    if (quantize.op.empty()) return y;
    return g.add1(quantize.op, {y, to.get(b["step"]), to.get(b["zero"])}, quantize.attrs);
  };
  return Match{b.nodes, build};
}

template <bool kRowsBeforeHeads, bool kTrained>
std::vector<Match> find_attention(const Matcher& m) {
  const P keys = either({P("Transpose", {"upright"}, "keys"), "keys"});
  const P scores = scaled(P("MatMul", {scaled("q"), scaled(keys)}));
  const P masked = either({P("Add", {scores, "mask"}), scores});
  const P of_windows("Reshape", {P("Add", {P("Reshape", {masked}, "split"), "windows"})});
  const P weights(is_softmax_of_rows, {either({of_windows, masked})});
  const P y("MatMul", {weights, "v"}, "y");
  const P bytes("QuantizeLinear", {y, "step", "zero"}, "bytes");
  const std::vector<bool> learned = depends_on(m.graph(), m.graph().params());
  return find_pattern(m, kRowsBeforeHeads ? P(is_rows_first, {either({bytes, y})}) : y,
                      [&](const Bound& b) -> std::optional<Match> {
                        for (const char* name : {"mask", "windows"}) {
                          if (kTrained && b.has(name) && learned[index(b[name])]) return {};
                        }
                        return attention(m, b, kRowsBeforeHeads, kTrained ? 2 : 1);
                      });
}

}  // namespace

const Rewrite kAttentionOfRows{find_attention<true, false>, Needs::kAnyKernel};
const Rewrite kAttention{find_attention<false, false>, Needs::kAnyKernel};
const Rewrite kTrainedAttentionOfRows{find_attention<true, true>, Needs::kAnyKernel};
const Rewrite kTrainedAttention{find_attention<false, true>, Needs::kAnyKernel};

}  // namespace ndtrain
