// Functions from graphs to graphs. Each keeps the names of inputs and outputs, and what the graph
// computes (to_training excepted, which is its point).
#pragma once

#include <span>
#include <vector>

#include "framework/passes/rewrite.h"

namespace ndtrain {

// Identity, and Dropout as inference sees it.
Graph remove_identities(const Graph& g);

// Runs every node whose inputs are constants, or params that are not in `but`, once, here.
Graph fold_constants(const Graph& g, std::span<const ValueId> but = {});

// Conv then BatchNormalization (inference) with frozen weights: one Conv with scaled weights.
Graph fold_batch_norm(const Graph& g);

// Reshapes and Transposes in a row become one of each, Gathers of one index of a packed axis a
// Split; rows that attention wants with images second keep them first. `g` as it is where that
// moves no fewer elements.
Graph merge_moves(const Graph& g);

// All of the above and the rewrites that every backend computes, in their order: what an extractor
// or an inference plan is made from.
Graph optimize_for_inference(const Graph& g);

// The same for what depends on none of `trainable`, so that it computes to the bit what an
// extractor cut off there does; the rest stays as it is. A graph of several inputs is left alone.
Graph optimize_frozen(const Graph& g, std::span<const ValueId> trainable);

// Attention as one node whose gradient needs no scores, before a loss is differentiated: where
// `accepts` takes both. No number that is `trainable` becomes an attribute.
Graph fuse_trained_attention(const Graph& g, std::span<const ValueId> trainable,
                             const Accepts& accepts);

// The rewrites that a device may refuse, in their order. `keep` as in rewrite().
Rewritten fuse_for_device(const Graph& g, std::span<const ValueId> keep, const Accepts& accepts);

// What `until` is computed from, in bf16 or f16: weights are converted, Casts stand at the ends and
// around what stays f32 (biases and statistics, what would lose digits, the last and smallest part
// of the work). The rest of `g`, its inputs and its outputs keep their types. Not exact, of course.
// `masters` are params that training changes: they stay, and are cast at every run.
Graph lower_floats(const Graph& g, DType narrow, std::span<const ValueId> until,
                   std::span<const ValueId> masters = {});

struct TrainingGraph {
  Graph graph;
  // Running statistics: graph output `output` is the next value of param `param`.
  struct State {
    ValueId param, output;
  };
  std::vector<State> states;
  ValueId dropout_seed = kNone;  // i64 [2]: seed and step; kNone without Dropout
};

// Batch statistics and dropout on: BatchNormalization trains and its running statistics become
// state outputs; Dropout draws its mask from (seed, step), so that it is not repeated for ever.
// Nodes that depend on none of `trainable` are frozen and stay as they are, wherever a cut lies.
TrainingGraph to_training(const Graph& g, std::span<const ValueId> trainable);

}  // namespace ndtrain
