#include "backends/cuda/dnn/engine.h"

#include <algorithm>
#include <charconv>

#include "backends/cuda/check.h"

namespace ndtrain::cuda {
namespace {

bool may_be_used(const Descriptor& engine, Numerics allowed) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t n = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  return std::none_of(notes, notes + n, [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return !allowed.tensor_cores;
      default:
        return false;
    }
  });
}

EngineConfig read_config(const Descriptor& config, const Descriptor& engine) {
  EngineConfig c{.engine = engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), .knobs = {}};
  const std::vector<Descriptor> knobs =
      descriptors(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS);
  std::vector<cudnnBackendDescriptor_t> list = addresses(knobs);
  const int64_t n = config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               CUDNN_KNOB_TYPE_COUNTS, list.data());
  for (int64_t i = 0; i < n; ++i) {
    const Descriptor& knob = knobs[static_cast<size_t>(i)];
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    knob.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    c.knobs.emplace_back(type, knob.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return c;
}

void append_suggestions(const Graph& graph, cudnnBackendHeurMode_t mode, Numerics allowed,
                        std::vector<EngineConfig>& list) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.finalize();
  const int64_t most =
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  const std::vector<Descriptor> configs = descriptors(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most);
  std::vector<cudnnBackendDescriptor_t> results = addresses(configs);
  const int64_t n = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   most, results.data());
  for (int64_t i = 0; i < std::min(n, most); ++i) {
    const Descriptor& config = configs[static_cast<size_t>(i)];
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t address = engine.get();
    config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &address);
    if (!may_be_used(engine, allowed)) continue;
    EngineConfig c = read_config(config, engine);
    if (std::find(list.begin(), list.end(), c) == list.end()) list.push_back(std::move(c));
  }
}

}  // namespace

std::string EngineConfig::text() const {
  std::string s = std::to_string(engine);
  char mark = ':';
  for (const auto& [knob, value] : knobs) {
    s += mark + std::to_string(knob) + '=' + std::to_string(value);
    mark = ',';
  }
  return s;
}

std::optional<EngineConfig> EngineConfig::parse(const std::string& text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int64_t& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc{};
  };
  const auto skip = [&](char c) { return at != end && *at == c && (++at, true); };
  EngineConfig c;
  if (!number(c.engine)) return {};
  for (char mark = ':'; at != end; mark = ',') {
    auto& [knob, value] = c.knobs.emplace_back();
    if (!skip(mark) || !number(knob) || !skip('=') || !number(value)) return {};
  }
  return c;
}

std::vector<EngineConfig> suggestions(const Graph& graph, Numerics allowed, Fallbacks fallbacks) {
  std::vector<EngineConfig> list;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK && fallbacks == Fallbacks::kNot) continue;
    try {
      append_suggestions(graph, mode, allowed, list);
    } catch (const Unsupported&) {  // then by the other mode
    }
  }
  return list;
}

Plan::Plan(cudnnHandle_t handle, Graph graph, const EngineConfig& config)
    : graph_(std::move(graph)) {
  engine_.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_.descriptor());
  engine_.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, config.engine);
  engine_.finalize();
  for (const auto& [knob, value] : config.knobs) {
    Descriptor& d = knobs_.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const auto type = static_cast<cudnnBackendKnobType_t>(knob);
    d.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    d.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    d.finalize();
  }
  config_.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine_);
  if (!knobs_.empty()) config_.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs_);
  config_.finalize();
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);  // releases before 9.8 want it
  plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_);
  plan_.finalize();
  const int64_t bytes = plan_.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (bytes < 0) unsupported("cuDNN wants a workspace of ", bytes, " bytes");
  workspace_ = static_cast<size_t>(bytes);
}

// A variant pack is made for every run: it cannot be changed once finalized, and a kernel may run
// with other addresses on other streams at once. A captured graph needs none when it is replayed.
void Plan::run(cudnnHandle_t handle, void* const* bound, void* workspace) const {
  const std::vector<void*> addresses = graph_.addresses(bound);
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, graph_.uids());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<int64_t>(addresses.size()), addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize();
  check(cudnnBackendExecute(handle, plan_.get(), pack.get()), "run a cuDNN plan");
}

}  // namespace ndtrain::cuda
