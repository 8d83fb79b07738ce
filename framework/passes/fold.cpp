// Folding: what can be computed once, is.
#include "framework/passes/fold.h"

#include <cmath>

#include "framework/graph/constants.h"
#include "framework/graph/uses.h"
#include "framework/passes/passes.h"

namespace ndtrain {

Graph fold_constants(const Graph& g, std::span<const ValueId> but) {
  const std::vector<bool> left = depends_on(g, but);
  GraphCopy copy(g);
  copy.keep_inputs();
  for (const Node& n : g.nodes()) {
    bool known = !n.inputs.empty();
    for (ValueId v : n.inputs) {
      if (v != kNone) known &= !left[index(v)] && copy.graph().value(copy.get(v)).data.defined();
    }
    copy.copy(n);
    if (!known || !worth_folding(g, n)) continue;
    const Node copied = copy.graph().nodes().back();
    std::vector<Tensor> results = run_on_constants(copy.graph(), copied);
    for (size_t k = 0; k < results.size(); ++k) {
      const std::string& name = g.value(n.outputs[k]).name;
      copy.replace(n.outputs[k], copy.graph().add_constant(name, std::move(results[k])));
    }
  }
  return remove_dead_nodes(copy.finish());
}

ChannelAffine batch_norm_affine(const Tensor& scale, const Tensor& bias, const Tensor& mean,
                                const Tensor& var, double epsilon) {
  ChannelAffine a{scale.to_doubles(), bias.to_doubles()};
  const std::vector<double> means = mean.to_doubles(), vars = var.to_doubles();
  for (size_t c = 0; c < a.factor.size(); ++c) {
    a.factor[c] /= std::sqrt(vars[c] + epsilon);
    a.offset[c] -= means[c] * a.factor[c];
  }
  return a;
}

namespace {

void emit_folded(GraphCopy& copy, const Graph& g, const Node& conv, const Node& bn) {
  const auto data = [&](size_t i) -> const Tensor& { return g.value(bn.inputs[i]).data; };
  const ChannelAffine a =
      batch_norm_affine(data(1), data(2), data(3), data(4), bn.attrs.f("epsilon"));
  const Value& w = g.value(conv.inputs[1]);
  std::vector<double> weights = w.data.to_doubles();
  const size_t row = weights.size() / a.factor.size();
  for (size_t i = 0; i < weights.size(); ++i) weights[i] *= a.factor[i / row];
  std::vector<double> bias = a.offset;
  if (conv.inputs.size() > 2) {
    const std::vector<double> b = g.value(conv.inputs[2]).data.to_doubles();
    for (size_t c = 0; c < bias.size(); ++c) bias[c] += b[c] * a.factor[c];
  }
  Graph& to = copy.graph();
  const std::string& name = g.value(bn.outputs[0]).name;
  const auto channels = static_cast<int64_t>(bias.size());
  const ValueId y = to.add1(
      "Conv",
      {copy.get(conv.inputs[0]), to.add_param(w.name, Tensor::from_doubles(w.type, weights)),
       to.add_param(name + ".bias", Tensor::from_doubles({w.type.dtype, {channels}}, bias))},
      conv.attrs);
  to.rename(y, name);
  copy.replace(bn.outputs[0], y);
}

bool all_known(const Graph& g, const Node& n, size_t first) {
  for (size_t i = first; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNone || !g.value(n.inputs[i]).data.defined()) return false;
  }
  return true;
}

}  // namespace

Graph fold_batch_norm(const Graph& g) {
  const Uses<ValueId> uses = uses_of(g);
  GraphCopy copy(g);
  copy.keep_inputs();
  std::vector<bool> folded(g.nodes().size());
  for (const Node& n : g.nodes()) {
    if (n.op != "BatchNormalization" || n.attrs.flag("training_mode") || !all_known(g, n, 1)) {
      continue;
    }
    const int conv = uses.producer(n.inputs[0]);
    if (conv < 0 || g.nodes()[conv].op != "Conv" || uses.reads(n.inputs[0]) != 1) continue;
    if (all_known(g, g.nodes()[conv], 1)) folded[static_cast<size_t>(conv)] = true;
  }
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (folded[i]) continue;
    const int producer = n.inputs.empty() ? -1 : uses.producer(n.inputs[0]);
    if (n.op == "BatchNormalization" && producer >= 0 && folded[static_cast<size_t>(producer)]) {
      emit_folded(copy, g, g.nodes()[producer], n);
    } else {
      copy.copy(n);
    }
  }
  return copy.finish();
}

}  // namespace ndtrain
