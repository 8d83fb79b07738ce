// RNN, GRU and LSTM with ONNX's default activations. Of a step, with a = W x + Wb and r = R h + Rb:
//   RNN   h = tanh(a + r)
//   GRU   z, g = sigmoid(a + r); n = tanh(a + R (g h) + Rb), with linear_before_reset
//         tanh(a + g r); h = (1 - z) n + z h
//   LSTM  i, f = sigmoid(a + r + P c); c = f c + i tanh(a + r); o = sigmoid(a + r + P c);
//         h = o tanh(c)
// Gates lie in the order z, g, n and i, o, f, c, an LSTM's peepholes in the order i, o, f. Behind
// the end of an image's sequence its outputs are 0 and its states stay. Source: ONNX's
// docs/Operators.md.
#include "framework/ops/recurrent.h"

#include "framework/ops/time_steps.h"

namespace ndtrain {

Recurrence::Recurrence(Cell cell, const Attrs& attrs, const Shape& x)
    : hidden(attrs.i("hidden_size")),
      directions(attrs.s("direction") == "bidirectional" ? 2 : 1),
      gates(cell == Cell::kRnn   ? 1
            : cell == Cell::kGru ? 3
                                 : 4),
      batch_first(attrs.i("layout") == 1) {
  if (x.rank() != 3) throw Error("x is ", x, ", must be of rank 3");
  steps = x[batch_first ? 1 : 0];
  batch = x[batch_first ? 0 : 1];
  inputs = x[2];
}

namespace {

using Kind = AttrSpec::Kind;
using Row = std::vector<double>;

void complete(Attrs& a, std::span<const TensorType> in) {
  if (!a.has("hidden_size") && in[kR].shape.rank() == 3) a.set("hidden_size", in[kR].shape[2]);
}

Shape state_shape(const Recurrence& r) {
  return r.batch_first ? Shape{r.batch, r.directions, r.hidden}
                       : Shape{r.directions, r.batch, r.hidden};
}

void check_attrs(const Attrs& a) {
  const std::string& direction = a.s("direction");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    throw Error("direction is '", direction, "', must be forward, reverse or bidirectional");
  }
  if (a.i("layout") != 0 && a.i("layout") != 1) {
    throw Error("layout is ", a.i("layout"), ", must be 0 or 1");
  }
  if (a.i("hidden_size") < 1) throw Error("hidden_size is ", a.i("hidden_size"));
  if (a.has("input_forget") && a.i("input_forget") != 0) {
    throw Error("input_forget is ", a.i("input_forget"), ", only 0 is supported");
  }
}

template <Cell K>
void infer(InferContext& c) {
  require(c, kX, is_float, "a float dtype");
  check_attrs(c.attrs);
  const Recurrence r(K, c.attrs, c.shape(kX));
  check_steps_of(r.steps);
  const int64_t rows = r.gates * r.hidden;
  const auto expect = [&](size_t i, const char* name, const Shape& shape) {
    if (!c.has(i)) return;
    require_same_dtype(c, kX, i);
    if (c.shape(i) != shape) throw Error(name, " is ", c.in[i], ", must be ", shape);
  };
  expect(kW, "W", {r.directions, rows, r.inputs});
  expect(kR, "R", {r.directions, rows, r.hidden});
  expect(kB, "B", {r.directions, 2 * rows});
  expect(kH, "initial_h", state_shape(r));
  expect(kC, "initial_c", state_shape(r));
  expect(kP, "P", {r.directions, 3 * r.hidden});
  if (c.has(kLengths) && c.in[kLengths] != TensorType{DType::kI32, {r.batch}}) {
    throw Error("sequence_lens is ", c.in[kLengths], ", must be i32[", r.batch, "]");
  }
  const DType t = c.in[kX].dtype;
  c.out = {{t, r.batch_first ? Shape{r.batch, r.steps, r.directions, r.hidden}
                             : Shape{r.steps, r.directions, r.batch, r.hidden}}};
  for (int k = 1; k < c.n_outputs; ++k) c.out.push_back({t, state_shape(r)});
}

struct State {
  Row h, c;
};

// The weights of one direction.
struct Weights {
  const double *w, *r, *wb, *rb, *p;  // no biases or peepholes: null

  Weights(const ReferenceContext& c, const Recurrence& s, int64_t d) {
    const int64_t rows = s.gates * s.hidden;
    w = c.in[kW].data() + d * rows * s.inputs;
    r = c.in[kR].data() + d * rows * s.hidden;
    wb = c.has(kB) ? c.in[kB].data() + 2 * d * rows : nullptr;
    rb = wb != nullptr ? wb + rows : nullptr;
    p = c.has(kP) ? c.in[kP].data() + 3 * d * s.hidden : nullptr;
  }
};

// m x + b, `rows` numbers.
Row affine(const double* m, const double* x, const double* b, int64_t rows, int64_t columns) {
  Row y(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    double sum = b != nullptr ? b[i] : 0;
    for (int64_t k = 0; k < columns; ++k) sum += m[i * columns + k] * x[k];
    y[static_cast<size_t>(i)] = sum;
  }
  return y;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// `h` is replaced by what the step makes of it.
void gru_step(const Recurrence& s, const Weights& w, bool linear, const Row& a, const Row& r,
              Row& h) {
  const auto n = static_cast<size_t>(s.hidden);
  Row z(n), g(n), kept(n);
  for (size_t j = 0; j < n; ++j) {
    z[j] = sigmoid(a[j] + r[j]);
    g[j] = sigmoid(a[n + j] + r[n + j]);
    kept[j] = g[j] * h[j];
  }
  const double* bias = w.rb != nullptr ? w.rb + 2 * n : nullptr;
  const Row of_kept = affine(w.r + 2 * n * n, kept.data(), bias, s.hidden, s.hidden);
  for (size_t j = 0; j < n; ++j) {
    const double recurrent = linear ? g[j] * r[2 * n + j] : of_kept[j];
    h[j] = (1 - z[j]) * std::tanh(a[2 * n + j] + recurrent) + z[j] * h[j];
  }
}

void lstm_step(const Recurrence& s, const double* p, const Row& a, const Row& r, State& state) {
  const auto n = static_cast<size_t>(s.hidden);
  for (size_t j = 0; j < n; ++j) {
    const auto sum = [&](size_t gate) { return a[gate * n + j] + r[gate * n + j]; };
    const auto peephole = [&](size_t k) { return p != nullptr ? p[k * n + j] * state.c[j] : 0; };
    const double i = sigmoid(sum(0) + peephole(0)), f = sigmoid(sum(2) + peephole(2));
    state.c[j] = f * state.c[j] + i * std::tanh(sum(3));
    state.h[j] = sigmoid(sum(1) + peephole(1)) * std::tanh(state.c[j]);
  }
}

template <Cell K>
void step(const Recurrence& s, const Attrs& attrs, const Weights& w, const double* x,
          State& state) {
  const int64_t rows = s.gates * s.hidden;
  const Row a = affine(w.w, x, w.wb, rows, s.inputs);
  const Row r = affine(w.r, state.h.data(), w.rb, rows, s.hidden);
  if constexpr (K == Cell::kGru) {
    gru_step(s, w, attrs.i("linear_before_reset") != 0, a, r, state.h);
  } else if constexpr (K == Cell::kLstm) {
    lstm_step(s, w.p, a, r, state);
  } else {
    for (size_t j = 0; j < a.size(); ++j) state.h[j] = std::tanh(a[j] + r[j]);
  }
}

template <Cell K>
void reference(const ReferenceContext& c) {
  const Recurrence s(K, c.attrs, c.shape(kX));
  for (int64_t i = 0; i < s.directions * s.batch; ++i) {
    const int64_t d = i / s.batch, b = i % s.batch;
    const int64_t at = (s.batch_first ? b * s.directions + d : i) * s.hidden;
    const auto initial = [&](size_t k) {
      Row row(static_cast<size_t>(s.hidden), 0.0);
      if (c.has(k)) std::copy_n(c.in[k].begin() + at, s.hidden, row.begin());
      return row;
    };
    const Weights w(c, s, d);
    State state{initial(kH), initial(kC)};
    const int64_t length = c.has(kLengths) ? c.ints(kLengths)[static_cast<size_t>(b)] : s.steps;
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = Recurrence::backwards(c.attrs, d) ? s.steps - 1 - k : k;
      if (t >= length) continue;
      const int64_t row = s.batch_first ? b * s.steps + t : t * s.batch + b;
      step<K>(s, c.attrs, w, c.in[kX].data() + row * s.inputs, state);
      const int64_t to = s.batch_first ? (row * s.directions + d) * s.hidden
                                       : ((t * s.directions + d) * s.batch + b) * s.hidden;
      std::ranges::copy(state.h, c.out[0].begin() + to);
    }
    if (c.out.size() > 1) std::ranges::copy(state.h, c.out[1].begin() + at);
    if (c.out.size() > 2) std::ranges::copy(state.c, c.out[2].begin() + at);
  }
}

template <Cell K>
std::vector<ValueId> compose(ComposeContext& c) {
  return compose_recurrence(c, K);
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return in[kX].shape[2] + a.i("hidden_size");
}

// x, W, R, B, lengths, h (and c, P) of 3 steps, 2 images, 2 inputs and 3 states.
std::vector<Example> examples_of(int64_t gates, bool lstm) {
  using E = ExampleInput;
  const int64_t rows = gates * 3;
  const auto with = [&](int64_t n, bool batch_first) {
    const E h = batch_first ? E{2, n, 3} : E{n, 2, 3};
    std::vector<E> in = {batch_first ? E{2, 4, 2} : E{4, 2, 2},
                         E{n, rows, 2},
                         E{n, rows, 3},
                         E{n, 2 * rows},
                         E::given(DType::kI32, {2}, {4, 2}),
                         h};
    if (lstm) in.insert(in.end(), {h, E{n, 9}});
    return in;
  };
  const int all = lstm ? 3 : 2;
  const Attrs reverse{{"direction", "reverse"}}, both{{"direction", "bidirectional"}};
  const Attrs batch_first{{"direction", "bidirectional"}, {"layout", int64_t{1}}};
  return {{{{2, 1, 3}, {1, rows, 3}, {1, rows, 3}}},
          {{{70, 1, 1}, {1, gates, 1}, {1, gates, 1}}, {}, 2},
          {with(1, false), {}, all},
          {with(1, false), reverse, all},
          {with(2, false), both, all},
          {with(2, true), batch_first, all},
          {{{DType::kF64, {2, 1, 3}}, {DType::kF64, {1, rows, 3}}, {DType::kF64, {1, rows, 3}}}}};
}

std::vector<Example> gru_examples() {
  std::vector<Example> list = examples_of(3, false);
  for (size_t i : {0, 2, 5}) {
    Example linear = list[i];
    linear.attrs.set("linear_before_reset", int64_t{1});
    list.push_back(std::move(linear));
  }
  return list;
}

template <Cell K>
OpDef recurrent(std::string_view name, int inputs, int outputs, std::vector<AttrSpec> more,
                std::vector<Example> examples) {
  std::vector<AttrSpec> attrs = {{"direction", Kind::kString, Attr("forward")},
                                 {"hidden_size", Kind::kInt},
                                 {"layout", Kind::kInt, Attr(int64_t{0})}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return {.name = name,
          .facts = {.onnx = 1, .onnx_later = kBf16Since22},
          .min_inputs = 3,
          .max_inputs = inputs,
          .max_outputs = outputs,
          .attrs = std::move(attrs),
          .complete = complete,
          .infer = infer<K>,
          .reference = reference<K>,
          .terms = terms,
          .compose = compose<K>,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpDef> recurrent_ops() {
  const Attr off(int64_t{0});
  return {recurrent<Cell::kRnn>("RNN", 6, 2, {}, examples_of(1, false)),
          recurrent<Cell::kGru>("GRU", 6, 2, {{"linear_before_reset", Kind::kInt, off}},
                                gru_examples()),
          recurrent<Cell::kLstm>("LSTM", 8, 3, {{"input_forget", Kind::kInt, off}},
                                 examples_of(4, true))};
}

}  // namespace ndtrain
