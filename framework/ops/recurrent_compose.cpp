#include "framework/ops/recurrent.h"
#include "framework/ops/time_steps.h"

namespace ndtrain {
namespace {

ValueId transposed(Graph& g, ValueId v, Ints perm) {
  return g.add1("Transpose", {v}, {{"perm", std::move(perm)}});
}

// Along the last dim.
std::vector<ValueId> split(Graph& g, ValueId v, const Ints& sizes) {
  const auto n = static_cast<int>(sizes.size());
  return g.add("Split", {v, g.add_constant("", sizes)}, {{"axis", int64_t{-1}}}, n);
}

struct StateValues {
  ValueId h, c;  // [batch, hidden]; c is kNone for a cell that has none
};

class Unrolled {
 public:
  Unrolled(ComposeContext& c, Cell cell)
      : c_(c), g_(c.g), cell_(cell), s_(cell, c.node.attrs, c.shape(kX)) {}

  std::vector<ValueId> outputs() {
    const ValueId x = s_.batch_first ? transposed(g_, c_.x(kX), {1, 0, 2}) : c_.x(kX);
    rows_ = reshape(g_, x, Shape{s_.steps * s_.batch, s_.inputs});
    std::vector<ValueId> y, h, c;
    for (int64_t d = 0; d < s_.directions; ++d) {
      StateValues state{initial(kH, d), cell_ == Cell::kLstm ? initial(kC, d) : kNone};
      const ValueId steps = stacked(g_, run(d, state));
      y.push_back(reshape(g_, steps, Shape{s_.steps, 1, s_.batch, s_.hidden}));
      for (const auto& [list, v] : {std::pair(&h, state.h), std::pair(&c, state.c)}) {
        if (v != kNone) list->push_back(reshape(g_, v, Shape{1, s_.batch, s_.hidden}));
      }
    }
    std::vector<ValueId> all = {joined_directions(y, 1, {2, 0, 1, 3})};
    if (c_.node.outputs.size() > 1) all.push_back(joined_directions(h, 0, {1, 0, 2}));
    if (c_.node.outputs.size() > 2) all.push_back(joined_directions(c, 0, {1, 0, 2}));
    return all;
  }

 private:
  // The weights of one direction; R^T as its gates need it.
  struct Weights {
    ValueId r, r_gates, r_candidate, r_bias;
    std::vector<ValueId> peepholes;
  };

  ValueId joined_directions(const std::vector<ValueId>& of_each, int64_t axis, Ints batch_first) {
    const ValueId all =
        of_each.size() == 1 ? of_each[0] : g_.add1("Concat", of_each, {{"axis", axis}});
    return s_.batch_first ? transposed(g_, all, std::move(batch_first)) : all;
  }

  // Input k of direction d.
  ValueId of_direction(size_t k, int64_t d) {
    ValueId v = c_.x(k);
    if (s_.batch_first && (k == kH || k == kC)) v = transposed(g_, v, {1, 0, 2});
    const Shape shape = g_.shape(v);
    if (s_.directions == 1) {
      return reshape(g_, v, Shape(Ints(shape.dims().begin() + 1, shape.dims().end())));
    }
    const ValueId at = g_.add_constant("", Tensor::of<int64_t>(DType::kI64, Shape{}, {d}));
    return g_.add1("Gather", {v, at});
  }

  ValueId initial(size_t k, int64_t d) {
    if (c_.has(k)) return of_direction(k, d);
    return expand(g_, scalar_like(g_, 0, c_.x(kX)), Shape{s_.batch, s_.hidden});
  }

  bool linear() const { return cell_ == Cell::kGru && c_.node.attrs.i("linear_before_reset") != 0; }

  // What the steps give, in the order of time; `state` is what the last leaves.
  std::vector<ValueId> run(int64_t d, StateValues& state) {
    const Weights w = weights(d);
    const std::vector<ValueId> from_x = steps_of(g_, products(d, w));
    std::vector<ValueId> y(from_x.size());
    for (size_t k = 0; k < from_x.size(); ++k) {
      const bool backwards = Recurrence::backwards(c_.node.attrs, d);
      const size_t t = backwards ? from_x.size() - 1 - k : k;
      StateValues next = step(w, from_x[t], state);
      y[t] = next.h;
      if (c_.has(kLengths)) hold(t, state, next, y[t]);
      state = next;
    }
    return y;
  }

  Weights weights(int64_t d) {
    Weights w{};
    w.r = transposed(g_, of_direction(kR, d), {1, 0});
    w.r_bias = kNone;
    if (cell_ == Cell::kGru) {
      const std::vector<ValueId> apart = split(g_, w.r, {2 * s_.hidden, s_.hidden});
      w.r_gates = apart[0];
      w.r_candidate = apart[1];
    }
    if (linear() && c_.has(kB)) w.r_bias = biases(d)[1];
    if (c_.has(kP)) {
      w.peepholes = split(g_, of_direction(kP, d), {s_.hidden, s_.hidden, s_.hidden});
    }
    return w;
  }

  std::vector<ValueId> biases(int64_t d) {
    const int64_t rows = s_.gates * s_.hidden;
    return split(g_, of_direction(kB, d), {rows, rows});
  }

  // W x and all biases that are merely added, of all steps.
  ValueId products(int64_t d, const Weights& w) {
    ValueId a = g_.add1("MatMul", {rows_, transposed(g_, of_direction(kW, d), {1, 0})});
    if (c_.has(kB)) {
      const std::vector<ValueId> b = biases(d);
      a = add(a, w.r_bias != kNone ? b[0] : add(b[0], b[1]));
    }
    return reshape(g_, a, Shape{s_.steps, s_.batch, s_.gates * s_.hidden});
  }

  StateValues step(const Weights& w, ValueId a, const StateValues& from) {
    if (cell_ == Cell::kGru) return {gru(w, a, from.h), kNone};
    const ValueId sum = add(a, product(from.h, w.r));
    if (cell_ == Cell::kLstm) return lstm(w, sum, from.c);
    return {g_.add1("Tanh", {sum}), kNone};
  }

  ValueId gru(const Weights& w, ValueId a, ValueId h) {
    const Ints sizes = {2 * s_.hidden, s_.hidden};
    const std::vector<ValueId> from_x = split(g_, a, sizes);
    ValueId of_gates = kNone, of_candidate = kNone;
    if (linear()) {
      const ValueId r = product(h, w.r);
      const std::vector<ValueId> from_h =
          split(g_, w.r_bias == kNone ? r : add(r, w.r_bias), sizes);
      of_gates = from_h[0];
      of_candidate = from_h[1];
    } else {
      of_gates = product(h, w.r_gates);
    }
    const ValueId gates = g_.add1("Sigmoid", {add(from_x[0], of_gates)});
    const std::vector<ValueId> zg = split(g_, gates, {s_.hidden, s_.hidden});
    of_candidate = linear() ? times(zg[1], of_candidate) : product(times(zg[1], h), w.r_candidate);
    const ValueId n = g_.add1("Tanh", {add(from_x[1], of_candidate)});
    return add(n, times(zg[0], g_.add1("Sub", {h, n})));
  }

  StateValues lstm(const Weights& w, ValueId sum, ValueId c) {
    const int64_t n = s_.hidden;
    if (w.peepholes.empty()) {
      const std::vector<ValueId> apart = split(g_, sum, {3 * n, n});
      const std::vector<ValueId> iof = split(g_, g_.add1("Sigmoid", {apart[0]}), {n, n, n});
      const ValueId next = add(times(iof[2], c), times(iof[0], g_.add1("Tanh", {apart[1]})));
      return {times(iof[1], g_.add1("Tanh", {next})), next};
    }
    const std::vector<ValueId> iofc = split(g_, sum, {n, n, n, n});
    const auto gate = [&](size_t k, ValueId seen) {
      return g_.add1("Sigmoid", {add(iofc[k], times(w.peepholes[k], seen))});
    };
    const ValueId next = add(times(gate(2, c), c), times(gate(0, c), g_.add1("Tanh", {iofc[3]})));
    return {times(gate(1, next), g_.add1("Tanh", {next})), next};
  }

  // Behind the end of an image's sequence.
  void hold(size_t t, const StateValues& before, StateValues& next, ValueId& y) {
    const std::vector<int32_t> step = {static_cast<int32_t>(t)};
    const ValueId at = g_.add_constant("", Tensor::of<int32_t>(DType::kI32, Shape{}, step));
    const ValueId lengths = reshape(g_, c_.x(kLengths), Shape{s_.batch, 1});
    const ValueId runs = g_.add1("Greater", {lengths, at});
    next.h = g_.add1("Where", {runs, next.h, before.h});
    if (next.c != kNone) next.c = g_.add1("Where", {runs, next.c, before.c});
    y = g_.add1("Where", {runs, y, scalar_like(g_, 0, y)});
  }

  ValueId add(ValueId a, ValueId b) { return g_.add1("Add", {a, b}); }
  ValueId times(ValueId a, ValueId b) { return g_.add1("Mul", {a, b}); }
  ValueId product(ValueId a, ValueId b) { return g_.add1("MatMul", {a, b}); }

  ComposeContext& c_;
  Graph& g_;
  const Cell cell_;
  const Recurrence s_;
  ValueId rows_ = kNone;
};

}  // namespace

std::vector<ValueId> compose_recurrence(ComposeContext& c, Cell cell) {
  return Unrolled(c, cell).outputs();
}

}  // namespace ndtrain
