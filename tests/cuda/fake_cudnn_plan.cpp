#include "tests/cuda/fake_cudnn_plan.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/cuda/fake_cudart_state.h"
#include "tests/cuda/fake_cudnn_engines.h"

namespace ndtrain::fake {
namespace {

constexpr uintptr_t kAlignment = 16;

template <typename T>
DnnAttribute attribute(cudnnBackendAttributeType_t type, const std::vector<T>& values) {
  DnnAttribute a{.type = type, .count = static_cast<int64_t>(values.size())};
  a.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

DnnAttribute of_children(std::vector<DnnPtr> children) {
  DnnAttribute a{.type = CUDNN_TYPE_BACKEND_DESCRIPTOR};
  a.count = static_cast<int64_t>(children.size());
  a.children = std::move(children);
  return a;
}

std::shared_ptr<DnnDescriptor> finalized(cudnnBackendDescriptorType_t type) {
  return std::make_shared<DnnDescriptor>(DnnDescriptor{.type = type, .finalized = true});
}

const DnnEngine engine_of(const DnnDescriptor& engine) {
  const auto index = engine.value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const std::vector<DnnEngine> all = dnn_engines();
  if (index < 0 || index >= static_cast<int64_t>(all.size())) {
    refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "no engine " + std::to_string(index));
  }
  return all[static_cast<size_t>(index)];
}

const DnnDescriptor& engine_of_config(const DnnDescriptor& config) {
  return *config.child(CUDNN_ATTR_ENGINECFG_ENGINE);
}

const DnnDescriptor& graph_of(const DnnDescriptor& engine) {
  return *engine.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

void check_engine(const DnnDescriptor& d) {
  if (engine_of(d).takes(pattern_of(read_graph(graph_of(d))))) return;
  refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "the engine does not take the graph");
}

void check_config(const DnnDescriptor& d) {
  const DnnEngine engine = engine_of(engine_of_config(d));
  if (!d.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) return;
  for (const DnnPtr& choice : d.children(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    const auto type = choice->value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    const auto value = choice->value<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    const bool known = std::ranges::any_of(engine.knobs, [&](const auto& knob) {
      return knob.first == type && value >= 0 && value <= knob.second;
    });
    if (!known) refuse(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knob or value");
  }
}

void check_plan(const DnnDescriptor& d) {
  if (const cudaError_t error = note({"cudnnBackendFinalize plan"})) {
    refuse(error == cudaErrorMemoryAllocation ? CUDNN_STATUS_ALLOC_FAILED
                                              : CUDNN_STATUS_INTERNAL_ERROR,
           "as ordered");
  }
  const DnnPtr config = d.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (!engine_of(engine_of_config(*config)).fails) return;
  refuse(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, "the engine is broken");
}

void check_convolution(const DnnDescriptor& d) {
  const auto n = d.value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  for (const int name :
       {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS,
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    if (d.attributes.at(name).count != n) {
      refuse(CUDNN_STATUS_BAD_PARAM, "a convolution's windows are not for its spatial dims");
    }
  }
  if (n < 2 || n > 3) refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution of other than 2 or 3 dims");
}

void check_tensor(const DnnDescriptor& d) {
  const DnnTensor t(d);
  if (t.dims.size() != t.strides.size() || t.dims.size() < 3) {
    refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's dims and strides");
  }
  if (t.is_virtual && t.by_value) refuse(CUDNN_STATUS_BAD_PARAM, "virtual and by value");
  if (t.by_value && t.count() != 1) refuse(CUDNN_STATUS_BAD_PARAM, "more than one by value");
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] < 1 || t.strides[i] < 1) refuse(CUDNN_STATUS_BAD_PARAM, "an extent below 1");
  }
}

void check_pack(const DnnDescriptor& d) {
  const auto uids = d.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const bool equal = uids.size() == d.list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size() &&
                     uids.size() == std::set<int64_t>(uids.begin(), uids.end()).size();
  if (!equal) refuse(CUDNN_STATUS_BAD_PARAM, "a variant pack's ids and pointers");
}

std::vector<DnnPtr> suggested(const DnnDescriptor& heuristics) {
  const DnnPtr graph = heuristics.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const DnnPattern pattern = pattern_of(read_graph(*graph));
  const bool fallbacks = heuristics.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) ==
                         CUDNN_HEUR_MODE_FALLBACK;
  std::vector<DnnPtr> configs;
  const std::vector<DnnEngine> all = dnn_engines();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].takes(pattern) || all[i].fallback != fallbacks) continue;
    const auto engine = finalized(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = of_children({graph});
    engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] =
        attribute<int64_t>(CUDNN_TYPE_INT64, {static_cast<int64_t>(i)});
    const int64_t most = all[i].knobs.empty() ? 0 : all[i].knobs.front().second;
    for (int64_t value = 0; value <= most; ++value) {
      const auto config = finalized(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      config->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = of_children({engine});
      std::vector<DnnPtr> knobs;
      for (const auto& [type, highest] : all[i].knobs) {
        const auto knob = finalized(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE] =
            attribute<cudnnBackendKnobType_t>(CUDNN_TYPE_KNOB_TYPE, {type});
        knob->attributes[CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE] =
            attribute<int64_t>(CUDNN_TYPE_INT64, {value});
        knobs.push_back(knob);
      }
      config->attributes[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] = of_children(std::move(knobs));
      configs.push_back(config);
    }
  }
  return configs;
}

int64_t workspace_of(const DnnDescriptor& config) {
  const DnnDescriptor& engine = engine_of_config(config);
  const DnnGraph g = read_graph(graph_of(engine));
  return engine_of(engine).workspace * g.operations.front().in[0].dims[0];
}

// "tensor cores:13=2"
std::string name_of(const DnnDescriptor& config, int64_t& knob_value) {
  std::string name = engine_of(engine_of_config(config)).name;
  if (!config.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) return name;
  char mark = ':';
  for (const DnnPtr& knob : config.children(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    knob_value = knob->value<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    name += mark + std::to_string(knob->value<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)) + "=" +
            std::to_string(knob_value);
    mark = ',';
  }
  return name;
}

void check_address(const DnnTensor& t, void* address) {
  if (!address) refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor without memory");
  if (t.by_value) {
    if (is_device(address)) refuse(CUDNN_STATUS_BAD_PARAM, "a value in device memory");
    return;
  }
  if (reinterpret_cast<uintptr_t>(address) % kAlignment) {
    refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned to 16 bytes");
  }
  if (!is_device(address, t.bytes())) {
    refuse(CUDNN_STATUS_EXECUTION_FAILED,
           "tensor " + std::to_string(t.uid) + " is not whole in device memory");
  }
}

}  // namespace

void check_descriptor(const DnnDescriptor& d) {
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return check_convolution(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return void(read_graph(d));
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return check_engine(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return check_config(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return check_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return check_pack(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return void(read_operation(std::make_shared<DnnDescriptor>(d)));
    default:
      return;
  }
}

bool computed_attribute(const DnnPtr& d, int name, DnnAttribute& answer) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      answer = of_children(suggested(*d));
      return true;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      answer = attribute(CUDNN_TYPE_NUMERICAL_NOTE, engine_of(*d).notes);
      return true;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      answer = attribute<int64_t>(
          CUDNN_TYPE_INT64, {workspace_of(*d->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG))});
      return true;
    default:
      return false;
  }
}

void execute(cudaStream_t stream, const DnnDescriptor& plan, const DnnDescriptor& pack) {
  const DnnPtr config = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const DnnEngine engine = engine_of(engine_of_config(*config));
  const DnnGraph graph = read_graph(graph_of(engine_of_config(*config)));
  const auto uids = pack.list<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto* const workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  std::map<int64_t, void*> at;
  for (size_t i = 0; i < uids.size(); ++i) at[uids[i]] = pointers[i];
  std::map<int64_t, double> values;
  for (const DnnTensor& t : graph.tensors) {
    if (t.is_virtual) continue;
    if (!at.count(t.uid)) {
      refuse(CUDNN_STATUS_BAD_PARAM, "no pointer for tensor " + std::to_string(t.uid));
    }
    check_address(t, at.at(t.uid));
    if (t.by_value) values[t.uid] = *static_cast<const float*>(at.at(t.uid));
  }
  const auto bytes = static_cast<size_t>(workspace_of(*config));
  if (bytes && !is_device(workspace, bytes)) {
    refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is not whole");
  }
  int64_t knob = 0;
  const std::string name = name_of(*config, knob);
  const bool tf32 = std::ranges::count(engine.notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) != 0;
  const int64_t cost = engine.cost - knob;
  const cudaError_t error = enqueue(stream, "cudnnBackendExecute", [=] {
    if (bytes) std::memset(workspace, 0xFF, bytes);
    compute(graph, at, values, tf32);
    if (bytes) std::memset(workspace, 0xFF, bytes);
    note_dnn_run(name);
    const std::lock_guard lock(state().mutex);
    state().tick += cost;
  });
  if (error) refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "as ordered");
}

}  // namespace ndtrain::fake
