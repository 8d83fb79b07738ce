// One training step as a graph: forward, loss, backward.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/passes/passes.h"

namespace ndtrain {

struct StepGraph {
  static constexpr size_t kGradients = 2;  // the output of `graph` that is the first gradient

  Graph graph;
  size_t forward_nodes = 0;  // nodes up to and including the loss
  // Of each node, see differentiate(); none for what a loss scale adds behind the gradients.
  std::vector<size_t> made_for;
  std::vector<ValueId> features;  // inputs of the graph that was differentiated, in its order
  ValueId labels = kNone;         // i64 [batch], or [batch, labels of a row]
  // f32, as the labels: 1/n, or a part of it, for the n rows that count, 0 for padding
  ValueId weights = kNone;
  ValueId dropout_seed = kNone;    // i64 [2]: seed, step; kNone without Dropout
  ValueId loss_scale = kNone;      // f32 []: see loss_scale.h; kNone but in f16
  std::vector<ValueId> trainable;  // params, in the order asked for
  std::vector<TrainingGraph::State> states;
  // Outputs of `graph`, in this order: loss, logits, one gradient per trainable, one per state;
  // with a loss scale, at the end f32 []: 0 when every gradient is finite, else not a number.
};

// `forward` takes features [batch, …] and has one output, the logits [batch, classes] (trailing
// dimensions of 1 are dropped; a final Softmax is looked through). `trainable` names params. Throws
// Error when nothing is trainable or the output does not look like logits. What is frozen is
// optimised as for inference. With `compute` bf16 or f16 all but the last layers compute in that
// type, on weights that are cast at every step from the f32 ones that are trained (Micikevicius et
// al., "Mixed Precision Training", 2018). More than one label of a row makes it a soft one. Where
// `accepts` (framework/runtime/device_fusion.h) is there, attention that it takes is one node, of
// which no scores are kept for the gradient.
StepGraph make_step_graph(const Graph& forward, std::span<const std::string> trainable,
                          double label_smoothing, DType compute = DType::kF32,
                          int64_t labels_of_row = 1, const Accepts& accepts = {});

// What a run of it is given besides its inputs: params that are trained, and running statistics.
std::vector<ValueId> bound_params(const StepGraph& s);

// Its trainable params in the order in which a run completes their gradients: as its nodes stand,
// from the back to the front of the model.
std::vector<ValueId> by_readiness(const StepGraph& s);

// The logits of an inference graph as [batch, classes], looking through a final Softmax likewise.
Graph with_plain_logits(const Graph& g);

}  // namespace ndtrain
