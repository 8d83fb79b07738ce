#include "framework/passes/inference.h"

#include <algorithm>

#include "framework/graph/precision.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

// The values behind which `g` is f32 again.
std::vector<ValueId> ends_of_precision(const Model& model, const Graph& g) {
  std::vector<ValueId> ends;
  for (const std::string& name : precision_until(model)) {
    ends.push_back(g.find(name));
    if (ends.back() == kNone) {
      throw Error("metadata ", kPrecisionUntilKey, ": the model has no value '", name, "'");
    }
  }
  if (ends.empty()) ends.assign(g.outputs().begin(), g.outputs().end());
  return ends;
}

// The ends are outputs meanwhile, so that no pass makes one of what lies before and behind.
Graph optimised_in(DType narrow, Graph g, const std::vector<ValueId>& ends) {
  const size_t outputs = g.outputs().size();
  for (ValueId v : ends) g.mark_output(v);
  g = optimize_for_inference(g);
  g = lower_floats(g, narrow, g.outputs().subspan(outputs));
  g.set_outputs({g.outputs().begin(), g.outputs().begin() + static_cast<std::ptrdiff_t>(outputs)});
  return remove_dead_nodes(g);
}

}  // namespace

Graph inference_graph(const Model& model, int64_t batch, Graph (*view)(const Graph&)) {
  Graph g = bind(model, batch);
  if (view) g = view(g);
  switch (declared_precision(model)) {
    case Precision::kBF16:
      return optimised_in(DType::kBF16, g, ends_of_precision(model, g));
    case Precision::kF16:
      return optimised_in(DType::kF16, g, ends_of_precision(model, g));
    case Precision::kF32:
    case Precision::kInt8:  // its bytes are in the graph itself
      break;
  }
  return optimize_for_inference(g);
}

}  // namespace ndtrain
