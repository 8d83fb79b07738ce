#include "framework/train/step_graph.h"

#include <algorithm>
#include <climits>
#include <map>

#include "framework/graph/differentiate.h"
#include "framework/graph/op.h"
#include "framework/graph/uses.h"

namespace ndtrain {
namespace {

// The value that a final Softmax over the classes is taken of, else the output itself.
ValueId before_softmax(const Graph& g, ValueId output) {
  const int producer = uses_of(g).producer(output);
  if (producer < 0) return output;
  const Node& n = g.nodes()[static_cast<size_t>(producer)];
  const bool soft = n.op == "Softmax" || n.op == "LogSoftmax";
  if (!soft || g.shape(output).rank() < 2) return output;
  return g.shape(output).axis(n.attrs.i("axis"), n.op) == 1 ? n.inputs[0] : output;
}

bool looks_like_logits(const Shape& s) { return s.rank() >= 2 && s.count(2, s.rank()) == 1; }

std::vector<ValueId> params_named(const Graph& g, std::span<const std::string> names) {
  std::vector<ValueId> params;
  for (const std::string& name : names) {
    const ValueId v = g.find(name);
    if (v == kNone || g.value(v).kind != ValueKind::kParam) {
      throw Error("'", name, "' is not a parameter of the trainable part");
    }
    params.push_back(v);
  }
  return params;
}

// One value of many of its kind, an operator's worth at a time.
ValueId sum_of(Graph& g, std::vector<ValueId> terms) {
  const auto most = static_cast<size_t>(find_op("Sum").max_inputs);
  while (terms.size() > 1) {
    std::vector<ValueId> sums;
    for (size_t i = 0; i < terms.size(); i += most) {
      const size_t end = std::min(i + most, terms.size());
      sums.push_back(g.add1("Sum", {terms.begin() + static_cast<std::ptrdiff_t>(i),
                                    terms.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
    terms = std::move(sums);
  }
  return terms.front();
}

// Divides the gradients by the scale. What is returned is 0, or not a number if their sum is not
// finite, as it is when one of them is not: infinity times 0 is none either.
ValueId unscale(Graph& g, ValueId scale, std::vector<ValueId>& gradients) {
  const ValueId inverse = g.add1("Reciprocal", {scale});
  std::vector<ValueId> sums;
  for (ValueId& v : gradients) {
    v = g.add1("Mul", {v, inverse});
    sums.push_back(g.add1("ReduceSum", {v}, {{"keepdims", int64_t{0}}}));
  }
  const double none = 0;
  const ValueId zero = g.add_constant("", Tensor::from_doubles({DType::kF32, {}}, {&none, 1}));
  return g.add1("Mul", {sum_of(g, std::move(sums)), zero});
}

}  // namespace

Graph with_plain_logits(const Graph& g) {
  if (g.outputs().size() != 1) {
    throw Error("a classifier has one output, this model has ", g.outputs().size());
  }
  const ValueId output = g.outputs()[0];
  const ValueId logits = before_softmax(g, output);
  if (!looks_like_logits(g.shape(logits))) {
    throw Error("the output '", g.value(output).name, "' is ", g.type(output),
                "; a classifier's is [batch, classes]");
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (const Node& n : g.nodes()) copy.copy(n);
  ValueId plain = copy.get(logits);
  if (g.shape(logits).rank() > 2) {
    plain = copy.graph().add1("Flatten", {plain}, {{"axis", int64_t{1}}});
  }
  copy.replace(output, plain);
  return remove_dead_nodes(copy.finish());
}

StepGraph make_step_graph(const Graph& forward, std::span<const std::string> trainable,
                          double label_smoothing, DType compute, int64_t labels_of_row,
                          const Accepts& accepts) {
  if (trainable.empty()) throw Error("nothing is trainable");
  Graph inference = with_plain_logits(forward);
  inference = optimize_frozen(inference, params_named(inference, trainable));
  if (compute != DType::kF32) {
    inference =
        lower_floats(inference, compute, inference.outputs(), params_named(inference, trainable));
  }
  inference = merge_moves(inference);
  if (accepts) {
    inference = fuse_trained_attention(inference, params_named(inference, trainable), accepts);
  }
  TrainingGraph training = to_training(inference, params_named(inference, trainable));
  StepGraph s;
  Graph& g = training.graph;
  for (ValueId v : g.inputs()) {
    if (v != training.dropout_seed) s.features.push_back(v);
  }
  s.trainable = params_named(g, trainable);
  const ValueId logits = g.outputs()[0];
  const int64_t batch = g.shape(logits)[0];
  const Shape of_labels = labels_of_row == 1 ? Shape{batch} : Shape{batch, labels_of_row};
  s.labels = g.add_input("labels", {DType::kI64, of_labels});
  s.weights = g.add_input("weights", {DType::kF32, of_labels});
  const ValueId loss = g.add1("SoftmaxCrossEntropy", {logits, s.labels, s.weights},
                              {{"smoothing", label_smoothing}});
  s.forward_nodes = g.nodes().size();
  const double one = 1;
  ValueId seed = g.add_constant("", Tensor::from_doubles({DType::kF32, {}}, {&one, 1}));
  if (compute == DType::kF16) seed = s.loss_scale = g.add_input("loss_scale", {DType::kF32, {}});
  std::vector<ValueId> gradients =
      differentiate(g, std::vector{loss}, std::vector{seed}, s.trainable, &s.made_for);
  const ValueId finite = s.loss_scale == kNone ? kNone : unscale(g, s.loss_scale, gradients);

  std::vector<ValueId> outputs = {loss, logits};
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  for (const TrainingGraph::State& state : training.states) outputs.push_back(state.output);
  if (finite != kNone) outputs.push_back(finite);
  g.set_outputs(std::move(outputs));
  s.states = training.states;
  s.dropout_seed = training.dropout_seed;
  s.graph = std::move(g);
  return s;
}

std::vector<ValueId> bound_params(const StepGraph& s) {
  std::vector<ValueId> bound = s.trainable;
  for (const TrainingGraph::State& state : s.states) bound.push_back(state.param);
  return bound;
}

std::vector<ValueId> by_readiness(const StepGraph& s) {
  const Uses<ValueId> uses = uses_of(s.graph);
  std::map<ValueId, int> completed_by;  // node
  for (size_t i = 0; i < s.trainable.size(); ++i) {
    const int node = uses.producer(s.graph.outputs()[StepGraph::kGradients + i]);
    completed_by[s.trainable[i]] = node < 0 ? INT_MAX : node;  // constants: at the end
  }
  std::vector<ValueId> params = s.trainable;
  std::ranges::stable_sort(params, {}, [&](ValueId v) { return completed_by.at(v); });
  return params;
}

}  // namespace ndtrain
