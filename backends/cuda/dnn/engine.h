// cuDNN's engines for a graph: which it suggests, which of them may be used, and a graph made
// ready to run by one.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/dnn/graph.h"

namespace ndtrain::cuda {

// An engine and where its knobs stand: what is kept of a choice, and built again from the text.
struct EngineConfig {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // cudnnBackendKnobType_t, value

  bool operator==(const EngineConfig&) const = default;
  std::string text() const;  // "12:2=3,14=1"
  static std::optional<EngineConfig> parse(const std::string& text);
};

// What an engine may not do to the numbers. Never: order sums by chance, accumulate in less than
// f32, or use transforms (Winograd, FFT), whose errors are of another kind.
struct Numerics {
  bool tensor_cores = true;  // they round f32 to tf32: without, f32 stays f32
};

// Fallbacks are slow engines for graphs that cuDNN has none for.
enum class Fallbacks { kAlso, kNot };

// What cuDNN's heuristics suggest, the best first, then its fallbacks, without what may not be
// used. Empty where it has nothing for such a graph.
std::vector<EngineConfig> suggestions(const Graph& graph, Numerics allowed,
                                      Fallbacks fallbacks = Fallbacks::kAlso);

// A graph made ready to run by an engine.
class Plan {
 public:
  // Throws Failure (mostly Unsupported) where the engine does not take the graph.
  Plan(cudnnHandle_t handle, Graph graph, const EngineConfig& config);

  size_t workspace_bytes() const { return workspace_; }
  const Graph& graph() const { return graph_; }
  // Enqueues on the handle's stream. `bound`: an address for each of the graph's bound tensors.
  void run(cudnnHandle_t handle, void* const* bound, void* workspace) const;

  Graph take_graph() && { return std::move(graph_); }

 private:
  Graph graph_;
  std::vector<Descriptor> knobs_;
  Descriptor engine_{CUDNN_BACKEND_ENGINE_DESCRIPTOR};
  Descriptor config_{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR};
  Descriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  size_t workspace_ = 0;
};

}  // namespace ndtrain::cuda
