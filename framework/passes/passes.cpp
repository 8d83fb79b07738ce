#include "framework/passes/passes.h"

#include <algorithm>

#include "framework/graph/op.h"
#include "framework/graph/split.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {

Graph remove_identities(const Graph& g) {
  const Uses<ValueId> uses = uses_of(g);
  GraphCopy copy(g);
  copy.keep_inputs();
  for (const Node& n : g.nodes()) {
    const bool mask_read = n.outputs.size() > 1 && uses.reads(n.outputs[1]) > 0;
    const bool is_output = uses.last_reader(n.outputs[0]) == uses.caller();
    if ((n.op == "Identity" || (n.op == "Dropout" && !mask_read)) && !is_output) {
      copy.replace(n.outputs[0], copy.get(n.inputs[0]));
    } else {
      copy.copy(n);
    }
  }
  return copy.finish();
}

Graph optimize_for_inference(const Graph& g) {
  Graph plain = remove_identities(g);
  // Before weights are folded back to f32.
  if (std::ranges::any_of(plain.nodes(), [](const Node& n) { return n.op == "QuantizeLinear"; })) {
    plain = remove_dead_nodes(rewrite(rewrite(plain, kConvolutions).graph, kQuantized).graph);
  }
  const Graph folded = rewrite(fold_constants(plain, matrices_of_bytes(plain)), kFunctions).graph;
  return merge_moves(remove_dead_nodes(rewrite(fold_batch_norm(folded), kConvolutions).graph));
}

namespace {

// remove_dead_nodes() that tells where values went, and leaves `keep`.
Rewritten without_dead_nodes(const Graph& g, std::span<const ValueId> keep) {
  std::vector<bool> live(g.value_count()), stays(g.nodes().size());
  for (const ValueId v : g.outputs()) live[index(v)] = true;
  for (const ValueId v : keep) live[index(v)] = true;
  for (size_t i = g.nodes().size(); i-- > 0;) {
    const Node& n = g.nodes()[i];
    stays[i] = std::ranges::any_of(n.outputs, [&](ValueId v) { return live[index(v)]; });
    for (const ValueId v : n.inputs) {
      if (stays[i] && v != kNone) live[index(v)] = true;
    }
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (size_t i = 0; i < stays.size(); ++i) {
    if (stays[i]) copy.copy(g.nodes()[i]);
  }
  for (const ValueId v : keep) copy.get(v);
  return {.graph = copy.finish(), .now = copy.now()};
}

// Whether a device takes what comes of `n` when a loss is differentiated by its first three inputs.
bool takes_gradient(Needs needs, const Graph& g, const Node& n, const Accepts& accepts) {
  Graph with = g;
  const ValueId dy = with.add_input("", g.type(n.outputs[0]));
  std::vector<ValueId> dys(n.outputs.size(), kNone);
  dys[0] = dy;
  const bool wanted[] = {true, true, true, false};  // the mask is not
  GradientContext context{with, n, dys, std::span(wanted).first(n.inputs.size())};
  find_op(n.op).gradient(context);
  return std::ranges::all_of(with.nodes().subspan(g.nodes().size()), [&](const Node& made) {
    return !is_optional_fusion(find_op(made.op), made.attrs) || accepts(needs, with, made);
  });
}

// Whether convolutions of bytes are nothing for a device, as those without an instruction for them.
bool takes_no_bytes(const Graph& g, const Accepts& accepts) {
  const auto is_of_bytes = [](const Node& n) { return n.op == "FusedQLinearConv"; };
  return accepts && std::ranges::any_of(g.nodes(), is_of_bytes) &&
         std::ranges::none_of(g.nodes(), [&](const Node& n) {
           return is_of_bytes(n) && accepts(Needs::kLayout, g, n);
         });
}

}  // namespace

Rewritten fuse_for_device(const Graph& g, std::span<const ValueId> keep, const Accepts& accepts) {
  Rewritten result{.graph = g, .now = {}};
  for (size_t i = 0; i < g.value_count(); ++i) result.now.push_back(static_cast<ValueId>(i));
  if (takes_no_bytes(g, accepts)) result = rewrite(g, kConvolutionsAsNumbers, keep);
  for (const Rewrite& how :
       {kAttentionOfRows, kAttention, kByteTables, kQuantizedMaps, kQuantizedProducts,
        kByteMatrices, kProducts, kPooledConvolutions, kConvFunctions, kElementwise}) {
    Rewritten next = rewrite(result.graph, how, translated(keep, result.now), accepts);
    result = {std::move(next.graph), translated(result.now, next.now)};
  }
  Rewritten live = without_dead_nodes(result.graph, translated(keep, result.now));
  return {std::move(live.graph), translated(result.now, live.now)};
}

Graph fuse_trained_attention(const Graph& g, std::span<const ValueId> trainable,
                             const Accepts& accepts) {
  const Accepts with_gradient = [&](Needs needs, const Graph& with, const Node& n) {
    return accepts(needs, with, n) && takes_gradient(needs, with, n, accepts);
  };
  Graph result = g;
  std::vector<ValueId> kept(trainable.begin(), trainable.end());
  for (const Rewrite& how : {kTrainedAttentionOfRows, kTrainedAttention}) {
    Rewritten next = rewrite(result, how, kept, with_gradient);
    kept = translated(kept, next.now);
    result = std::move(next.graph);
  }
  return remove_dead_nodes(result);
}

Graph optimize_frozen(const Graph& g, std::span<const ValueId> trainable) {
  if (g.inputs().size() != 1) return g;
  const Split parts = split(g, trainable);
  if (parts.extractor.nodes().empty()) return g;
  const Graph& rest = parts.trainable;
  GraphCopy copy(rest);
  copy.graph() = optimize_for_inference(parts.extractor);
  copy.graph().set_outputs({});
  for (const ValueId v : rest.inputs()) {
    copy.replace(v, copy.graph().find(rest.value(v).name));
  }
  for (const Node& n : rest.nodes()) copy.copy(n);
  return copy.finish();
}

}  // namespace ndtrain
