#include "backends/cuda/dnn/choose.h"

#include <algorithm>

#include "backends/cuda/memory.h"
#include "backends/plugin/node.h"

namespace ndtrain::cuda {
namespace {

constexpr size_t kMostMeasured = 8;
constexpr int kRepeats = 4;
constexpr double kClearly = 0.97;  // of the first suggestion's time, to go against it

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "make an event"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

size_t bytes_of(const ndt_tensor_type& t) {
  return static_cast<size_t>(std::max<int64_t>(count(t), 1) * size_of(t.dtype));
}

// Zeroed memory for the bound tensors of a graph.
class Tensors {
 public:
  Tensors(const ndt_device& device, const Graph& graph, cudaStream_t stream) {
    for (const ndt_tensor_type& t : graph.bound_types()) {
      memory_.push_back(std::make_unique<Memory>(device, bytes_of(t)));
      addresses_.push_back(memory_.back()->data());
      check(cudaMemsetAsync(addresses_.back(), 0, bytes_of(t), stream), "clear memory");
    }
  }
  void* const* addresses() const { return addresses_.data(); }

 private:
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<void*> addresses_;
};

cudaStream_t stream_of(cudnnHandle_t handle) {
  cudaStream_t stream = nullptr;
  check(cudnnGetStream(handle, &stream), "ask for its stream");
  return stream;
}

// Seconds, the shortest of a few runs.
double measure(const ndt_device& device, cudnnHandle_t handle, const Plan& plan, const Tensors& t) {
  const Memory workspace(device, std::max<size_t>(plan.workspace_bytes(), 1));
  const cudaStream_t stream = stream_of(handle);
  const Event begin, end;
  float best = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    check(cudaEventRecord(begin.get(), stream), "record an event");
    plan.run(handle, t.addresses(), workspace.data());
    check(cudaEventRecord(end.get(), stream), "record an event");
    check(cudaEventSynchronize(end.get()), "wait for an engine to be measured");
    float took = 0;
    check(cudaEventElapsedTime(&took, begin.get(), end.get()), "measure an engine");
    if (i == 1 || took < best) best = took;  // the first one warms up
  }
  return best / 1e3;
}

// Failures of one engine say nothing about the next, unless the device is lost.
template <typename F>
bool tried(const F& attempt, std::string& why) {
  try {
    attempt();
    return true;
  } catch (const Failure& e) {
    if (e.status == NDT_DEVICE_LOST) throw;
    why = e.what();
    return false;
  }
}

// None where nothing can be measured.
std::optional<Tuning::Measured> fastest(const ndt_device& device, cudnnHandle_t handle,
                                        const Layer& layer, int64_t images,
                                        const std::vector<EngineConfig>& list) {
  std::optional<Tuning::Measured> best;
  std::string why;
  (void)tried(
      [&] {
        const Tensors tensors(device, layer.graph(images), stream_of(handle));
        const size_t n = std::min(list.size(), kMostMeasured);
        for (size_t i = 0; i < n; ++i) {
          (void)tried(
              [&] {
                Graph graph = layer.graph(images);
                graph.finalize(handle);
                const Plan plan(handle, std::move(graph), list[i]);
                const double took = measure(device, handle, plan, tensors);
                if (best && took >= kClearly * best->chosen_seconds) return;
                best = {list[i].text(), took, i == 0 ? took : best ? best->rule_seconds : 0};
              },
              why);
        }
      },
      why);
  return best;
}

std::vector<EngineConfig> ranked(const ndt_device& device, cudnnHandle_t handle,
                                 const Layer& layer) {
  const int64_t images = layer.chosen_by > 0 ? layer.chosen_by : layer.images;
  Graph graph = layer.graph(images);
  graph.finalize(handle);
  std::vector<EngineConfig> list = suggestions(graph, layer.allowed, layer.fallbacks);
  if (list.empty()) unsupported("cuDNN has no engine for ", layer.key);
  if (!device.tuning) return list;
  const std::string answer = device.tuning->choose(
      layer.key, list.front().text(), [&] { return fastest(device, handle, layer, images, list); });
  if (const auto chosen = EngineConfig::parse(answer)) list.insert(list.begin(), *chosen);
  return list;
}

}  // namespace

Plan choose(const ndt_device& device, cudnnHandle_t handle, const Layer& layer) {
  std::string why;
  for (const EngineConfig& config : ranked(device, handle, layer)) {
    std::optional<Plan> plan;
    if (tried(
            [&] {
              Graph graph = layer.graph(layer.images);
              graph.finalize(handle);
              plan.emplace(handle, std::move(graph), config);
            },
            why)) {
      return std::move(*plan);
    }
  }
  unsupported("cuDNN's engines refuse ", layer.key, ": ", why);
}

}  // namespace ndtrain::cuda
