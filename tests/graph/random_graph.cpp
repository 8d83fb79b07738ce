#include "tests/graph/random_graph.h"

#include <algorithm>
#include <cmath>

#include "framework/core/rng.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain::testing {
namespace {

constexpr int64_t kSide = 5;

class Builder {
 public:
  Builder(uint64_t seed, int64_t batch) : seed_(seed), batch_(batch), rng_(seed, "network") {
    maps_.push_back(g_.add_input("x", {DType::kF32, {batch, 3, kSide, kSide}}));
    maps_.push_back(g_.add_input("y", {DType::kF32, {batch, 4, kSide, kSide}}));
  }

  Graph run(int nodes) {
    while (static_cast<int>(g_.nodes().size()) < nodes) add_something();
    const ValueId last = maps_.back();
    const ValueId flat = g_.add1("Flatten", {g_.add1("GlobalAveragePool", {last})});
    const ValueId logits = g_.add1("Gemm", {flat, param({g_.shape(last)[1], 3}), param({3})});
    g_.rename(logits, "logits");
    g_.mark_output(logits);
    for (ValueId v : maps_) {
      if (g_.value(v).kind == ValueKind::kComputed && below(6) == 0) g_.mark_output(v);
    }
    return std::move(g_);
  }

 private:
  size_t below(uint64_t n) { return static_cast<size_t>(rng_.next_below(n)); }
  ValueId any() { return maps_[below(maps_.size())]; }
  int64_t channels(ValueId v) const { return g_.shape(v)[1]; }

  ValueId param(Shape shape, double low = -0.5, double high = 0.5) {
    const std::string name = "w" + std::to_string(params_++);
    Tensor t = random_tensor({DType::kF32, std::move(shape)}, seed_, name);
    Tensor scaled(t.type());
    for (int64_t i = 0; i < t.shape().count(); ++i) {
      const auto k = static_cast<size_t>(i);
      const double u = (static_cast<double>(t.as<float>()[k]) + 1) / 2;
      scaled.mutable_as<float>()[k] = static_cast<float>(low + u * (high - low));
    }
    return g_.add_param(name, scaled);
  }

  // Another map of the same type; `v` itself when there is none.
  ValueId like(ValueId v) {
    std::vector<ValueId> same;
    for (ValueId m : maps_) {
      if (g_.type(m) == g_.type(v)) same.push_back(m);
    }
    return same[below(same.size())];
  }

  void convolution() {
    const ValueId x = any();
    const int64_t in = channels(x), out = 2 + static_cast<int64_t>(below(4));
    const Attrs padded{{"pads", Ints{1, 1, 1, 1}}};
    switch (below(3)) {
      case 0:
        keep(g_.add1("Conv", {x, param({out, in, 3, 3}), param({out})}, padded));
        break;
      case 1:
        keep(g_.add1("Conv", {x, param({out, in, 1, 1})}));
        break;
      default:
        keep(g_.add1("Conv", {x, param({in, 1, 3, 3}), param({in})},
                     {{"pads", Ints{1, 1, 1, 1}}, {"group", in}}));
    }
  }

  void norm() {
    const ValueId x = any();
    const Shape c{channels(x)};
    keep(g_.add1("BatchNormalization",
                 {x, param(c, 0.5, 1.5), param(c), param(c), param(c, 0.5, 2)}));
  }

  void views() {
    const ValueId x = any();
    const Shape s = g_.shape(x);
    const ValueId flat =
        g_.add1("Flatten", {x}, {{"axis", int64_t{1 + static_cast<int64_t>(below(2))}}});
    const ValueId back = g_.add1("Reshape", {flat, g_.add_constant("", s.dims())});
    keep(below(2) == 0 ? g_.add1("Identity", {back}) : back);
  }

  void two_outputs() {
    const ValueId x = any();
    if (channels(x) < 2) return;
    const ValueId parts = g_.add_constant("", Ints{1, channels(x) - 1});
    const auto out = g_.add("Split", {x, parts}, {{"axis", int64_t{1}}}, 2);
    for (ValueId v : out) {
      if (below(3) > 0) keep(v);  // else nobody reads it
    }
  }

  void add_something() {
    const Attrs window{{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}};
    const ValueId x = any();
    switch (below(12)) {
      case 0:
      case 1:
        return convolution();
      case 2:
        return keep(g_.add1("Relu", {x}));
      case 3:
        return keep(g_.add1("Sigmoid", {x}));
      case 4:
        return keep(g_.add1("Add", {x, like(x)}));
      case 5:
        return keep(g_.add1("Mul", {x, like(x)}));
      case 6: {
        const ValueId other = any();
        if (channels(x) + channels(other) > 9) return;
        return keep(g_.add1("Concat", {x, other}, {{"axis", int64_t{1}}}));
      }
      case 7:
        return two_outputs();
      case 8:
        return norm();
      case 9:
        return keep(g_.add1(below(2) == 0 ? "MaxPool" : "AveragePool", {x}, window));
      case 10:
        return views();
      default:
        return keep(g_.add1("MatMul", {x, param({kSide, kSide})}));
    }
  }

  void keep(ValueId v) { maps_.push_back(v); }

  uint64_t seed_;
  int64_t batch_;
  Rng rng_;
  Graph g_;
  std::vector<ValueId> maps_;
  int params_ = 0;
};

}  // namespace

Tensor random_tensor(const TensorType& type, uint64_t seed, std::string_view purpose) {
  const Rng rng(seed, purpose);
  std::vector<double> values(static_cast<size_t>(type.shape.count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::round(rng.uniform(i) * 256 - 128) / 128;
  return Tensor::from_doubles(type, values);
}

std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (ValueId v : g.inputs()) inputs.push_back(random_tensor(g.type(v), seed, g.value(v).name));
  return inputs;
}

Graph random_network(uint64_t seed, int nodes, int64_t batch) {
  return Builder(seed, batch).run(nodes);
}

std::vector<std::vector<double>> interpret_named(const Graph& g, const NamedValues& given) {
  DoubleValues values;
  for (ValueId v : g.inputs()) values[v] = given.at(g.value(v).name);
  for (ValueId v : g.params()) {
    if (const auto it = given.find(g.value(v).name); it != given.end()) values[v] = it->second;
  }
  const DoubleValues all = interpret(g, std::move(values));
  std::vector<std::vector<double>> outputs;
  for (ValueId v : g.outputs()) outputs.push_back(all.at(v));
  return outputs;
}

NamedValues named_inputs(const Graph& g, uint64_t seed) {
  NamedValues values;
  const std::vector<Tensor> tensors = random_inputs(g, seed);
  for (size_t i = 0; i < tensors.size(); ++i) {
    values[g.value(g.inputs()[i]).name] = tensors[i].to_doubles();
  }
  return values;
}

double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b) {
  if (a.size() != b.size()) throw Error(a.size(), " outputs and ", b.size());
  double largest = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].size() != b[k].size()) throw Error("output ", k, " has another size");
    for (size_t i = 0; i < a[k].size(); ++i) {
      const double d = std::abs(a[k][i] - b[k][i]) / std::max(1.0, std::abs(b[k][i]));
      largest = std::isnan(d) ? INFINITY : std::max(largest, d);
    }
  }
  return largest;
}

int count_nodes(const Graph& g, std::string_view op) {
  return static_cast<int>(
      std::ranges::count_if(g.nodes(), [&](const Node& n) { return n.op == op; }));
}

}  // namespace ndtrain::testing
