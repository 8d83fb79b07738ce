// A Model is an ONNX model as imported: opset differences gone, defaults explicit, functions
// inlined, but shapes not yet computed, and the batch open. It is what artefacts are made of;
// bind() makes the Graph that everything else works on.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/graph/graph.h"

namespace ndtrain {

inline constexpr int64_t kBatch = -1;  // a dimension that is the batch

struct ModelInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // kBatch where symbolic
};

struct ModelNode {
  std::string op;
  std::vector<std::string> inputs, outputs;  // "" where absent
  Attrs attrs;
};

struct Model {
  std::vector<ModelInput> inputs;
  std::vector<std::string> outputs;
  std::vector<ModelNode> nodes;  // in execution order
  std::map<std::string, Tensor> initialisers;
  std::map<std::string, std::string> metadata;  // class names, preprocessing, parent, hashes
};

// The graph of `model` for one batch size. Value names are the model's. Float initialisers become
// params, all others constants. Shape arithmetic is folded away: a node whose inputs are all
// constants runs through the reference and leaves a constant. `known` gives the value of inputs
// that decide shapes; they become constants. Throws Error naming the node that does not fit.
Graph bind(const Model& model, int64_t batch, const std::map<std::string, Tensor>& known = {});

// Inputs whose values decide shapes (Reshape's second, say), so that bind() needs them.
std::vector<std::string> shape_inputs(const Model& model);

// The part of `model` that computes `outputs` from the values `inputs`, which need not be inputs of
// the model. Shape arithmetic on values before `inputs` is rewritten to read the batch from the
// first of them. Throws Error if something else before `inputs` is needed.
Model extract(const Model& model, std::span<const std::string> inputs,
              std::span<const std::string> outputs);

// SHA-256 over structure, attributes and weights: names of values do not count, metadata does only
// for the keys given. The identity of an extractor, a head, a version.
Digest content_id(const Model& model, std::span<const std::string> metadata_keys = {});

}  // namespace ndtrain
