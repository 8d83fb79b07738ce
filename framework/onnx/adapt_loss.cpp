// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss as comparisons of the targets with all
// classes: -x[n, target[n, …], …], weighed by class, without what has the class ignore_index.
#include "framework/core/limits.h"
#include "framework/onnx/adapt.h"

namespace ndtrain {
namespace {

struct Loss {
  std::string each, weights;  // by target; "": all weigh 1
};

Loss loss_of_each(Adaptation& a, const std::string& scores) {
  const TensorType x = a.type(a.input(0)), target = a.type(a.input(1));
  if (x.shape.rank() < 2 || target.shape.rank() != x.shape.rank() - 1) {
    throw Error("scores ", x, " and targets ", target, " must be [N, C, …] and [N, …]");
  }
  if (x.shape[1] > limits::kClasses) throw Error("scores ", x, " are of too many classes");
  Ints classes, dims(static_cast<size_t>(x.shape.rank()) - 1, 1);
  for (int64_t c = 0; c < x.shape[1]; ++c) classes.push_back(c);
  dims[0] = x.shape[1];
  const std::vector<double> numbers(classes.begin(), classes.end());
  const std::string all = a.constant(Tensor::from_doubles({target.dtype, Shape(dims)}, numbers));
  const std::string hit =
      a.before("Equal", {a.before("Unsqueeze", {a.input(1), a.constant({1})}), all});
  const std::string zero = a.number(0, scores);
  // Of each target what `v` has for its class; 0 for a class that there is not.
  const auto picked = [&](const std::string& v) {
    return a.before("ReduceSum", {a.before("Where", {hit, v, zero}), a.constant({1})},
                    {{"keepdims", int64_t{0}}});
  };
  Loss loss{a.before("Neg", {picked(scores)}), ""};
  if (a.has_input(2)) {
    loss.weights = picked(a.before("Reshape", {a.input(2), a.constant(dims)}));
  }
  if (const auto ignored = a.take<int64_t>("ignore_index")) {
    const auto index = static_cast<double>(*ignored);
    const std::string number =
        a.constant(Tensor::from_doubles({target.dtype, {}}, std::span(&index, 1)));
    const std::string left_out = a.before("Equal", {a.input(1), number});
    loss.each = a.before("Where", {left_out, zero, loss.each});
    loss.weights = a.before(
        "Where", {left_out, zero, loss.weights.empty() ? a.number(1, scores) : loss.weights});
  }
  if (!loss.weights.empty()) loss.each = a.before("Mul", {loss.each, loss.weights});
  return loss;
}

void reduce_loss(Adaptation& a, const std::string& scores) {
  const std::string how = a.take<std::string>("reduction").value_or("mean");
  if (how != "none" && how != "sum" && how != "mean") {
    throw Error("reduction is '", how, "', must be none, sum or mean");
  }
  const Loss loss = loss_of_each(a, scores);
  const Attrs scalar{{"keepdims", int64_t{0}}};
  a.node.outputs.resize(1);
  if (how == "none") return a.become("Identity", {loss.each});
  if (how == "sum") return a.become("ReduceSum", {loss.each}, scalar);
  if (loss.weights.empty()) return a.become("ReduceMean", {loss.each}, scalar);
  const std::string sum = a.before("ReduceSum", {loss.each}, scalar);
  a.become("Div", {sum, a.before("ReduceSum", {loss.weights}, scalar)});
}

}  // namespace

void adapt_nll_loss(Adaptation& a) { reduce_loss(a, a.input(0)); }

void adapt_cross_entropy_loss(Adaptation& a) {
  const std::string scores = a.before("LogSoftmax", {a.input(0)}, {{"axis", int64_t{1}}});
  a.give(1, scores);
  reduce_loss(a, scores);
}

}  // namespace ndtrain
