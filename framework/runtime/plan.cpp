#include "framework/runtime/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/graph/arithmetic.h"
#include "framework/graph/op.h"
#include "framework/passes/passes.h"
#include "framework/runtime/abi_node.h"
#include "framework/runtime/layout.h"
#include "framework/runtime/preparation.h"
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
  std::vector<int> at_end = p.copied_outputs;
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
  p.ready_order.insert(p.ready_order.end(), at_end.begin(), at_end.end());
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

// Whether `device` itself has a kernel for a fused node that nothing has to have.
bool takes(const Device& device, const Graph& g, const Node& n) {
  const AbiNode node(n, row_major_types(g));
  ndt_prepared prepared{};
  prepared.struct_size = sizeof prepared;
  const ndt_status s = device.abi().prepare(device.handle(), &node.get(), &prepared);
  if (s == NDT_UNSUPPORTED) return false;
  device.backend().check(s, "prepare " + n.op);
  device.abi().release(prepared.kernel);
  return true;
}

// Whether it says how it would lay one out.
bool has_layout_for(const Device& device, const Graph& g, const Node& n) {
  if (!device.abi().prefer) return false;
  AbiNode node(n, row_major_types(g));
  std::vector<ndt_tensor_type> in, out;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    in.push_back(abi_type(g.type(n.inputs[k])));
    const Tensor& data = g.value(n.inputs[k]).data;
    if (data.defined()) node.set_constant(k, data.data(), 0);
  }
  for (ValueId v : n.outputs) out.push_back(abi_type(g.type(v)));
  const ndt_status s = device.abi().prefer(device.handle(), &node.get(), in.data(), out.data());
  if (s == NDT_UNSUPPORTED) return false;
  device.backend().check(s, "layouts of " + n.op);
  return true;
}

LaidOut adapted_to(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  const Rewritten fused =
      fuse_for_device(g, bindings, [&](Needs needs, const Graph& with, const Node& n) {
        return needs == Needs::kKernel ? takes(device, with, n) : has_layout_for(device, with, n);
      });
  const std::vector<ValueId> bound = translated(bindings, fused.now);
  LaidOut laid = lay_out(fused.graph, device, {bound.begin(), bound.end()});
  laid.now = translated(fused.now, laid.now);
  return laid;
}

Stretch stretch_for(const Graph& g, std::span<const ndt_tensor_type> types, const Device& device,
                    const PlanOptions& options) {
  const bool may = options.reuse_memory && options.bound_params.empty();
  if (!may || !device.shares_host_memory()) return {};
  return choose_stretch(g, types, shared_threads().threads(), options.stretch);
}

// The kernels, for a few images at a time where `stretch` says so and each kernel takes that; else
// `stretch` becomes empty.
std::unique_ptr<Preparation> prepared(const Graph& g, std::span<const ndt_tensor_type> types,
                                      const Device& device, const std::set<ValueId>& bound,
                                      bool join, Stretch& stretch) {
  try {
    auto asked = std::make_unique<Preparation>(g, types, device, bound, stretch);
    if (join) asked->join();
    asked->ask_all();
    return asked;
  } catch (const Error&) {  // perhaps of a kernel that takes the batch, but not a few images
    if (stretch.nodes == 0) throw;
    stretch = {};
    return prepared(g, types, device, bound, join, stretch);
  }
}

Step step_of(const Graph& g, const Node& n, PreparedKernel kernel, const Placement& placement) {
  Step s{.kernel = std::move(kernel)};
  s.op = n.op;
  s.name = g.value(n.outputs[0]).name;
  s.dtype = g.type(n.inputs.empty() ? n.outputs[0] : n.inputs[0]).dtype;
  s.operations = arithmetic(g, n);
  for (const ValueId v : n.inputs) s.inputs.push_back(placement.of(v));
  for (const ValueId v : n.outputs) s.outputs.push_back(placement.of(v));
  return s;
}

// Gives for each value the step that makes it; -1: none.
std::vector<int> add_steps(Plan::Program& p, const Graph& g, Preparation& preparation,
                           const Placement& placement) {
  std::vector<int> step_of_value(g.value_count(), -1);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    const NodePlan& plan = preparation.plans()[i];
    if (plan.is_view || plan.is_join) {
      int& made = step_of_value[index(n.outputs[0])];
      const size_t read = plan.is_view ? 1 : n.inputs.size();
      for (size_t k = 0; k < read; ++k) made = std::max(made, step_of_value[index(n.inputs[k])]);
      continue;
    }
    for (const ValueId v : n.outputs) step_of_value[index(v)] = static_cast<int>(p.steps.size());
    p.steps.push_back(step_of(g, n, preparation.take(i), placement));
    if (i < p.stretch.nodes) p.stretch_steps = p.steps.size();
  }
  return step_of_value;
}

}  // namespace

Plan::Plan(const Graph& given, const Device& device, PlanOptions options)
    : program_(std::make_unique<Program>(device)) {
  Program& p = *program_;
  declare(p, given, options);
  const LaidOut laid = adapted_to(device, given, p.bindings);
  const Graph& g = laid.graph;
  const std::vector<ValueId> bindings = translated(p.bindings, laid.now);
  const std::set<ValueId> bound(bindings.begin(), bindings.end());

  p.stretch = stretch_for(g, laid.types, device, options);
  const std::unique_ptr<Preparation> preparation =
      prepared(g, laid.types, device, bound, options.reuse_memory, p.stretch);
  const Placement placement =
      place_values(g, laid.types, preparation->plans(), bindings, options.reuse_memory, p.stretch);
  const std::vector<int> step_of_value = add_steps(p, g, *preparation, placement);

  p.slots_at = placement.slots_at;
  p.slot_bytes = placement.slot_bytes;
  p.slot_workspace = preparation->slot_workspace();
  p.arena_bytes = placement.arena_bytes;
  p.workspace_bytes = preparation->workspace();
  p.copied_outputs = placement.copied_outputs;
  for (ValueId v : g.outputs()) p.output_places.push_back(placement.of(v));

  std::set<ValueId> needed = preparation->unpacked();
  for (int k : p.copied_outputs) {
    const Place& from = p.output_places[static_cast<size_t>(k)];
    if (from.kind == Place::Kind::kConstant) needed.insert(static_cast<ValueId>(from.at));
  }
  keep_constants(p, g, needed);
  order_outputs(p, g, step_of_value);
}

Plan::~Plan() = default;

std::span<const ValueId> Plan::bindings() const { return program_->bindings; }
std::span<const ValueId> Plan::outputs() const { return program_->outputs; }
std::span<const int> Plan::ready_order() const { return program_->ready_order; }
const TensorType& Plan::type(ValueId v) const { return program_->types.at(index(v)); }
const Device& Plan::device() const { return program_->device; }
const Stretch& Plan::stretch() const { return program_->stretch; }
size_t Plan::arena_bytes() const { return program_->arena_bytes + program_->workspace_bytes; }
size_t Plan::constant_bytes() const { return program_->constant_bytes; }
size_t Plan::kernel_count() const { return program_->steps.size(); }

}  // namespace ndtrain
