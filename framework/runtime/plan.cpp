// A plan in five steps, each a function of what the ones before it made: fuse, assign layouts,
// choose the tiling, select kernels, plan memory.
#include "framework/runtime/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/graph/arithmetic.h"
#include "framework/runtime/device_fusion.h"
#include "framework/runtime/kernel_selection.h"
#include "framework/runtime/layout.h"
#include "framework/runtime/program.h"

namespace ndtrain {
namespace {

void keep_constants(Plan::Program& p, const Graph& g, const std::set<ValueId>& needed) {
  for (ValueId v : needed) {
    const Tensor& t = g.value(v).data;
    p.constant_bytes += t.bytes();
    if (p.device.shares_host_memory()) {
      p.kept.push_back(t);
      p.constants[index(v)] = t.data();
      continue;
    }
    DeviceBuffer& buffer = p.uploaded.emplace_back(p.device, std::max<size_t>(t.bytes(), 1));
    p.device.upload(buffer.data(), t.data(), t.bytes());
    p.constants[index(v)] = buffer.data();
  }
}

// Which outputs are complete after which step, and so the order in which a run reports them.
void order_outputs(Plan::Program& p, const Graph& g, const std::vector<int>& step_of_value) {
  std::vector<int> at_end = p.memory.copied_outputs;
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    const int step = step_of_value[index(g.outputs()[k])];
    if (std::ranges::find(at_end, static_cast<int>(k)) != at_end.end()) continue;
    if (step < 0) {
      at_end.push_back(static_cast<int>(k));
    } else {
      p.steps[static_cast<size_t>(step)].completes.push_back(static_cast<int>(k));
    }
  }
  for (const Step& s : p.steps) {
    p.ready_order.insert(p.ready_order.end(), s.completes.begin(), s.completes.end());
  }
  p.ready_by_steps = p.ready_order.size();
  p.ready_order.insert(p.ready_order.end(), at_end.begin(), at_end.end());
}

// Which bindings are first read by which step.
void order_bindings(Plan::Program& p) {
  std::vector<bool> needed(p.bindings.size());
  const auto is_first = [&](size_t k) {
    if (needed[k]) return false;
    needed[k] = true;
    p.need_order.push_back(static_cast<int>(k));
    return true;
  };
  for (Step& s : p.steps) {
    for (const ValueLocation& in : s.inputs) {
      if (in.kind == ValueLocation::Kind::kBinding && is_first(in.at)) {
        s.needs.push_back(static_cast<int>(in.at));
      }
    }
  }
  p.needed_by_steps = p.need_order.size();
  for (size_t k = 0; k < p.bindings.size(); ++k) (void)is_first(k);
}

// What the caller sees of a graph: its values' numbers, before anything is laid out otherwise.
void declare(Plan::Program& p, const Graph& g, const PlanOptions& options) {
  p.bindings.assign(g.inputs().begin(), g.inputs().end());
  for (ValueId v : options.bound_params) {
    if (v == kNone || g.value(v).kind != ValueKind::kParam) {
      throw Error("plan: value ", static_cast<int32_t>(v), " is bound but is not a parameter");
    }
    p.bindings.push_back(v);
  }
  p.outputs.assign(g.outputs().begin(), g.outputs().end());
  for (ValueId v : g.params()) {
    if (!g.value(v).data.defined() && std::ranges::find(p.bindings, v) == p.bindings.end()) {
      throw Error("plan: parameter '", g.value(v).name, "' has neither data nor a binding");
    }
  }
  for (size_t i = 0; i < g.value_count(); ++i) p.types.push_back(g.type(static_cast<ValueId>(i)));
}

BatchTiling tiling_for(const LayoutAssignment& laid, const Device& device,
                       const PlanOptions& options) {
  const bool may = options.reuse_memory && options.bound_params.empty();
  if (!may || !device.shares_host_memory()) return {};
  return choose_tiling(laid.graph, laid.types, shared_threads().threads(), options.tiling);
}

Rewritten as_it_is(const Graph& g) {
  Rewritten same{.graph = g};
  for (size_t v = 0; v < g.value_count(); ++v) same.now.push_back(static_cast<ValueId>(v));
  return same;
}

// By value of what is run: which one it was of the graph that was given; kNone: it is new.
std::vector<ValueId> given_values(const Rewritten& fused, const LayoutAssignment& laid) {
  std::vector<ValueId> given(laid.graph.value_count(), kNone);
  for (size_t v = 0; v < fused.now.size(); ++v) {
    if (fused.now[v] == kNone) continue;
    const ValueId now = laid.now[index(fused.now[v])];
    if (now != kNone) given[index(now)] = static_cast<ValueId>(v);
  }
  return given;
}

Step step_of(const Graph& g, const Node& n, PreparedKernel kernel, const MemoryPlan& memory,
             const std::vector<ValueId>& given) {
  Step s{.kernel = std::move(kernel)};
  for (const ValueId v : n.outputs) {
    if (given[index(v)] != kNone) s.makes = given[index(v)];
  }
  if (n.op == "Reorder") s.makes = given[index(n.inputs[0])];
  s.op = s.kernel.reference() ? n.op + " (reference)" : n.op;
  s.name = g.value(n.outputs[0]).name;
  s.dtype = g.type(n.inputs.empty() ? n.outputs[0] : n.inputs[0]).dtype;
  s.operations = arithmetic(g, n);
  for (const ValueId v : n.inputs) s.inputs.push_back(memory.of(v));
  for (const ValueId v : n.outputs) s.outputs.push_back(memory.of(v));
  return s;
}

// Gives for each value the step that makes it; -1: none.
std::vector<int> add_steps(Plan::Program& p, const Graph& g, KernelSelection& selected,
                           const MemoryPlan& memory, const std::vector<ValueId>& given) {
  std::vector<int> step_of_value(g.value_count(), -1);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    const NodePlan& plan = selected.nodes[i];
    if (plan.is_view || plan.is_elided_concat) {
      int& made = step_of_value[index(n.outputs[0])];
      const size_t read = plan.is_view ? 1 : n.inputs.size();
      for (size_t k = 0; k < read; ++k) made = std::max(made, step_of_value[index(n.inputs[k])]);
      continue;
    }
    for (const ValueId v : n.outputs) step_of_value[index(v)] = static_cast<int>(p.steps.size());
    p.steps.push_back(step_of(g, n, std::move(selected.kernels[i]), memory, given));
    p.steps.back().workspace = plan.workspace;
    p.steps.back().workspace_at = memory.workspaces_at[i];
    if (i < selected.tiling.nodes) p.tiled_steps = p.steps.size();
  }
  return step_of_value;
}

// What an Executor needs of all that was decided.
void assemble(Plan::Program& p, const Graph& g, KernelSelection selected, MemoryPlan memory,
              const std::vector<ValueId>& given) {
  const std::vector<int> step_of_value = add_steps(p, g, selected, memory, given);
  p.tiling = selected.tiling;
  for (ValueId v : g.outputs()) p.output_locations.push_back(memory.of(v));
  p.memory = std::move(memory);
  std::set<ValueId> needed = std::move(selected.unpacked);
  for (int k : p.memory.copied_outputs) {
    const ValueLocation& from = p.output_locations[static_cast<size_t>(k)];
    if (from.kind == ValueLocation::Kind::kConstant) needed.insert(static_cast<ValueId>(from.at));
  }
  keep_constants(p, g, needed);
  order_outputs(p, g, step_of_value);
  order_bindings(p);
}

}  // namespace

Plan::Plan(const Graph& given, const Device& device, PlanOptions options)
    : program_(std::make_unique<Program>(device)) {
  declare(*program_, given, options);
  const Rewritten fused =
      options.fuse ? fuse_for(device, given, program_->bindings) : as_it_is(given);
  std::vector<ValueId> bindings = translated(program_->bindings, fused.now);
  const LayoutAssignment laid =
      assign_layouts(fused.graph, device, {bindings.begin(), bindings.end()});
  bindings = translated(bindings, laid.now);
  const BatchTiling tiling = tiling_for(laid, device, options);
  KernelSelection selected = select_kernels(laid, device, {bindings.begin(), bindings.end()},
                                            options.reuse_memory, tiling);
  if (!selected.refusals.empty()) throw Error(text_of(selected.refusals, laid.graph, device));
  MemoryPlan memory = plan_memory(laid.graph, laid.types, selected.nodes, bindings,
                                  options.reuse_memory, selected.tiling);
  assemble(*program_, laid.graph, std::move(selected), std::move(memory),
           given_values(fused, laid));
}

Plan::~Plan() = default;

std::span<const ValueId> Plan::bindings() const { return program_->bindings; }
std::span<const ValueId> Plan::outputs() const { return program_->outputs; }
std::span<const int> Plan::ready_order() const { return program_->ready_order; }
std::span<const int> Plan::need_order() const { return program_->need_order; }
const TensorType& Plan::type(ValueId v) const { return program_->types.at(index(v)); }
const Device& Plan::device() const { return program_->device; }
const BatchTiling& Plan::tiling() const { return program_->tiling; }
size_t Plan::arena_bytes() const { return program_->memory.arena_bytes; }
size_t Plan::constant_bytes() const { return program_->constant_bytes; }
size_t Plan::kernel_count() const { return program_->steps.size(); }

}  // namespace ndtrain
