#include "framework/graph/inference.h"

#include "framework/graph/passes.h"

namespace ndtrain {

Graph inference_graph(const Model& model, int64_t batch, Graph (*view)(const Graph&)) {
  Graph g = bind(model, batch);
  if (view) g = view(g);
  return optimize_for_inference(g);
}

}  // namespace ndtrain
