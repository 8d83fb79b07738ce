#include "framework/pipeline/schedules/pipe_shape.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

void validate_counts(const PipeShape& shape) {
  if (shape.stages < 1) throw Error("pipeline: ", shape.stages, " stages; it takes one at least");
  if (shape.chunks < 1 || shape.stages % shape.chunks != 0) {
    throw Error("pipeline: ", shape.stages, " stages cannot be shared out alike, ", shape.chunks,
                " to a rank");
  }
  if (shape.micro_batches < 1 || shape.mini_batches < 1 ||
      shape.micro_batches > limits::kFlushMicroBatches ||
      shape.mini_batches > limits::kFlushMicroBatches / shape.micro_batches) {
    throw Error("pipeline: ", shape.mini_batches, " mini-batches of ", shape.micro_batches,
                " micro-batches until the flush; 1 to ", limits::kFlushMicroBatches,
                " in all can be");
  }
  for (const size_t n : {shape.recompute.size(), shape.forward_only.size()}) {
    if (n != 0 && n != static_cast<size_t>(shape.stages)) {
      throw Error("pipeline: something is said of ", n, " stages, and there are ", shape.stages);
    }
  }
}

void validate_edge(const PipeShape& shape, const StageEdge& e) {
  if (e.from < 0 || e.from >= e.to || e.to >= shape.stages) {
    throw Error("pipeline: an edge from stage ", e.from, " to stage ", e.to, " of ", shape.stages,
                "; edges go to later stages");
  }
  if (!e.activation && !e.gradient) {
    throw Error("pipeline: nothing goes from stage ", e.from, " to stage ", e.to, ", or back");
  }
  if (returns_gradient(shape, e) && !shape.trains(e.to)) {
    throw Error("pipeline: stage ", e.from, " is trained, and waits for a gradient from stage ",
                e.to, ", which only runs forward");
  }
}

}  // namespace

std::vector<StageEdge> edges_of(const PipeShape& shape) {
  if (!shape.edges.empty()) return shape.edges;
  std::vector<StageEdge> chain;
  for (int s = 1; s < shape.stages; ++s) chain.push_back({s - 1, s});
  return chain;
}

bool returns_gradient(const PipeShape& shape, const StageEdge& edge) {
  return edge.gradient && shape.trains(edge.from);
}

void validate(const PipeShape& shape) {
  validate_counts(shape);
  std::vector<StageEdge> edges = edges_of(shape);
  std::vector<bool> gets_gradient(static_cast<size_t>(shape.stages));
  for (const StageEdge& e : edges) {
    validate_edge(shape, e);
    if (returns_gradient(shape, e)) gets_gradient[static_cast<size_t>(e.from)] = true;
  }
  const auto ends = [](const StageEdge& e) { return std::pair(e.from, e.to); };
  std::ranges::sort(edges, {}, ends);
  if (const auto e = std::ranges::adjacent_find(edges, {}, ends); e != edges.end()) {
    throw Error("pipeline: two edges from stage ", e->from, " to stage ", e->to);
  }
  for (int s = 0; s + 1 < shape.stages; ++s) {
    if (shape.trains(s) && !gets_gradient[static_cast<size_t>(s)]) {
      throw Error("pipeline: stage ", s,
                  " is trained, and no later stage returns a gradient to it");
    }
  }
}

}  // namespace ndtrain
