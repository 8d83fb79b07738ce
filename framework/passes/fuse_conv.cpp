// Convolutions and what follows them.
#include <algorithm>
#include <limits>

#include "framework/graph/elementwise_steps.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

bool has_activation(const Matcher& m, int conv) {
  const Attrs& a = m.node(conv).attrs;
  return a.has("activation") && !a.s("activation").empty();
}

// What the node `add` adds to `y`, when it can be a residual: `y` is the later of the two.
ValueId residual(const Matcher& m, int add, ValueId y) {
  const ValueId other = m.input(add, m.input(add, 0) == y ? 1 : 0);
  const bool alike = other != y && m.graph().type(other) == m.graph().type(y);
  return alike && m.producer(other) < m.producer(y) ? other : kNone;
}

bool is_activation(const Matcher& m, int i, ValueId of) {
  if ((!m.is(i, "Relu") && !m.is(i, "Clip")) || m.input(i, 0) != of) return false;
  const std::vector<ValueId>& in = m.node(i).inputs;
  return std::all_of(in.begin() + 1, in.end(),
                     [&](ValueId v) { return v == kNone || m.number(v); });
}

void set_activation(const Matcher& m, int i, Attrs& attrs) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  attrs.set("activation", m.node(i).op);
  if (!m.is(i, "Clip")) return;
  attrs.set("clip_min", m.number(m.input(i, 1)).value_or(-kLargest));
  attrs.set("clip_max", m.number(m.input(i, 2)).value_or(kLargest));
}

// The steps that follow a convolution and alone read its result, and their nodes.
std::string function_of(const Matcher& m, ValueId y, std::vector<int>& nodes) {
  if (const int reader = m.reader(y); reader >= 0) {
    if (elementwise_operands(m.node(reader).op) != 1) return "";
    nodes.push_back(reader);
    return steps_of(m, {reader}).text;
  }
  const int mul = m.reads(y) == 2 ? m.last_reader(y) : -1;
  if (!m.is(mul, "Mul")) return "";
  const int gate = m.maker(m.input(mul, m.input(mul, 0) == y ? 1 : 0));
  if (!m.is(gate, "Sigmoid") || m.input(gate, 0) != y) return "";
  nodes.insert(nodes.end(), {gate, mul});
  return "Sigmoid x0; Mul x0 y0";
}

bool is_poolable(const Matcher& m, int i) {
  if (!is_conv(m, i)) return false;
  const auto fixed = [&](ValueId v) { return v == kNone || m.is_fixed(v); };
  return fixed(m.input(i, 1)) && fixed(m.input(i, 2)) && m.input(i, 3) == kNone;
}

bool is_plain_pool(const Matcher& m, int i) {
  if (!m.is(i, "MaxPool") || m.node(i).outputs.size() != 1) return false;
  const Ints& dilations = m.node(i).attrs.ints("dilations");
  return m.shape(m.input(i, 0)).rank() == 4 &&
         std::ranges::all_of(dilations, [](int64_t d) { return d == 1; });
}

// Padding that reaches as far as the last window.
Ints reach(const Matcher& m, int pool) {
  const Shape &x = m.shape(m.input(pool, 0)), &y = m.shape(m.result(pool));
  const Attrs& a = m.node(pool).attrs;
  Ints pads = a.ints("pads");
  for (size_t d = 0; d < 2; ++d) {
    const int64_t at = 2 + static_cast<int64_t>(d);
    const int64_t end = (y[at] - 1) * a.ints("strides")[d] + a.ints("kernel_shape")[d];
    pads[2 + d] = std::max<int64_t>(end - x[at] - pads[d], 0);
  }
  return pads;
}

ValueId pooled(const Matcher& m, int conv, int pool, GraphCopy& to) {
  Attrs attrs = m.node(conv).attrs;
  attrs.set("pool_kernel", m.node(pool).attrs.ints("kernel_shape"));
  attrs.set("pool_strides", m.node(pool).attrs.ints("strides"));
  attrs.set("pool_pads", reach(m, pool));
  std::vector<ValueId> in;
  for (size_t k = 0; k < 3; ++k) in.push_back(to.get(m.input(conv, k)));
  return to.graph().add1("ConvMaxPool", std::move(in), std::move(attrs));
}

}  // namespace

std::vector<Match> find_convolutions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!m.is(i, "Conv") || m.dtype(m.result(i)) != DType::kF32) continue;
    std::vector<int> nodes = {i};
    std::vector<ValueId> in = m.node(i).inputs;
    Attrs attrs = m.node(i).attrs;
    in.resize(4, kNone);
    int next = m.reader(m.result(i));
    if (m.is(next, "Add")) in[3] = residual(m, next, m.result(i));
    if (in[3] != kNone) {
      nodes.push_back(next);
      next = m.reader(m.result(next));
    }
    if (is_activation(m, next, m.result(nodes.back()))) {
      set_activation(m, next, attrs);
      nodes.push_back(next);
    }
    if (nodes.size() > 1) all.push_back(fused("FusedConv", in, attrs, nodes));
  }
  return all;
}

std::vector<Match> find_conv_functions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!is_conv(m, i) || has_activation(m, i)) continue;
    std::vector<int> nodes = {i};
    Attrs attrs = m.node(i).attrs;
    attrs.set("steps", function_of(m, m.result(i), nodes));
    const std::vector<ValueId>& in = m.node(i).inputs;
    if (nodes.size() == 1 || std::ranges::count(in, kNone) > 0) continue;
    all.push_back(fused("ConvElementwise", in, attrs, nodes));
  }
  return all;
}

std::vector<Match> find_pooled_convolutions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!is_plain_pool(m, i)) continue;
    const int made = m.maker(m.input(i, 0));
    const bool joined = m.is(made, "Concat") &&
                        m.shape(m.result(made)).axis(m.node(made).attrs.i("axis"), "axis") == 1;
    std::vector<int> convs = {made};
    if (joined) {
      convs.clear();
      for (const ValueId v : m.node(made).inputs) convs.push_back(m.maker(v));
    }
    if (!std::ranges::all_of(convs, [&](int conv) { return is_poolable(m, conv); })) continue;
    std::vector<int> nodes = convs;
    if (joined) nodes.push_back(made);
    nodes.push_back(i);
    all.push_back({std::move(nodes), [=, &m](GraphCopy& to) {
                     std::vector<ValueId> ys;
                     for (const int conv : convs) ys.push_back(pooled(m, conv, i, to));
                     if (!joined) return ys[0];
                     return to.graph().add1("Concat", std::move(ys), m.node(made).attrs);
                   }});
  }
  return all;
}

}  // namespace ndtrain
