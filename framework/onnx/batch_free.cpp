// Extents of shapes are multiples of the batch plus numbers, and so is what is picked from them:
// such a value that is the same at two batches is the same at all.
#include "framework/onnx/batch_free.h"

#include <algorithm>

#include "framework/graph/op.h"

namespace ndtrain {

BatchFree::BatchFree(const Model& model) : model_(model), two_(model, 2), three_(model, 3) {}

const Tensor* BatchFree::find(const std::string& value) {
  const Tensor* data = two_.data(value);
  for (; nodes_ < model_.nodes.size(); ++nodes_) learn(model_.nodes[nodes_]);
  return data && is_free(value) ? data : nullptr;
}

void BatchFree::learn(const ModelNode& n) {
  const bool free = std::ranges::all_of(n.inputs, [&](const auto& in) { return is_free(in); });
  const bool affine = is_affine(n);
  for (const std::string& name : n.outputs) {
    if (name.empty()) continue;
    if (affine) affine_.insert(name);
    if (free || (affine && is_same_at_two_and_three(name))) free_.insert(name);
  }
}

bool BatchFree::is_free(const std::string& value) const {
  return value.empty() || free_.contains(value) || model_.initialisers.contains(value);
}

bool BatchFree::is_affine(const std::string& value) const {
  return is_free(value) || affine_.contains(value);
}

bool BatchFree::is_affine(const ModelNode& n) const {
  if (n.op == "Shape" || n.op == "Size") return true;
  const auto affine = [&](const std::string& in) { return is_affine(in); };
  if (n.op == "Concat") return std::ranges::all_of(n.inputs, affine);
  const bool moves = n.op == "Cast" || find_op(n.op).facts.kind == OpKind::kMove;
  if (!moves || n.inputs.empty() || !affine(n.inputs[0])) return false;
  return std::all_of(n.inputs.begin() + 1, n.inputs.end(),
                     [&](const std::string& in) { return is_free(in); });
}

bool BatchFree::is_same_at_two_and_three(const std::string& value) {
  const Tensor *a = two_.data(value), *b = three_.data(value);
  return a && b && a->type() == b->type() && a->same_bytes(*b);
}

}  // namespace ndtrain
