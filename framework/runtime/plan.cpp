#include "framework/runtime/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/core/hash.h"
#include "framework/graph/arithmetic.h"
#include "framework/graph/fuse_attention.h"
#include "framework/graph/fuse_conv_elementwise.h"
#include "framework/graph/fuse_elementwise.h"
#include "framework/graph/fuse_matmul.h"
#include "framework/graph/fuse_max_pool.h"
#include "framework/graph/op.h"
#include "framework/graph/passes.h"
#include "framework/runtime/abi_node.h"
#include "framework/runtime/arena.h"
#include "framework/runtime/join.h"
#include "framework/runtime/layout.h"
#include "framework/runtime/program.h"

namespace ndtrain {
namespace {

uint64_t constant_id(const Tensor& t) {
  uint64_t seed = static_cast<uint64_t>(t.type().dtype);
  for (int64_t d : t.shape().dims()) seed = seed * 1'000'003 + static_cast<uint64_t>(d);
  return xxh3(t.data(), t.bytes(), seed);
}

// Asks the backend about every node, and gathers what it says.
class Preparation {
 public:
  Preparation(const Graph& g, std::span<const ndt_tensor_type> types, const Device& device,
              const std::set<ValueId>& bound, const Stretch& stretch)
      : g_(g),
        types_(types),
        device_(device),
        bound_(bound),
        stretch_(stretch),
        within_(types_within(stretch, g, types)),
        kernels_(g.nodes().size()),
        plans_(g.nodes().size()),
        whole_(g.nodes().size(), kNone) {
    for (size_t i = 0; i < plans_.size(); ++i) plans_[i].is_view = is_view_here(g.nodes()[i]);
  }

  // Concats that need no copy: see join.h. Asks for the kernels of their parts.
  void join() {
    const Joins joins(g_);
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      const std::vector<size_t> producers = joins.part_producers(n);
      if (producers.empty() || !part_offset(types_, n, producers.size() - 1)) continue;
      if (std::ranges::any_of(producers, [&](size_t p) { return plans_[p].is_view; })) continue;
      for (size_t p : producers) whole_[p] = n.outputs[0];
      plans_[i].is_join = std::ranges::all_of(producers, [&](size_t p) { return ask(p).empty(); });
      for (size_t p : producers) {
        if (plans_[i].is_join) continue;
        whole_[p] = kNone;
        kernels_[p] = {};
      }
    }
  }

  // Throws Error where a node is refused.
  void ask_all() {
    std::string refusals;
    int refused = 0;
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      if (plans_[i].is_view) {
        reads(n.inputs[0]);
        continue;
      }
      if (plans_[i].is_join || kernels_[i].get()) continue;
      const std::string refusal = ask(i);
      if (refusal.empty()) continue;
      ++refused;
      refusals += "\n  " + n.op + " computing '" + g_.value(n.outputs[0]).name + "': " + refusal;
    }
    if (refused > 0) {
      throw Error("the ", device_.backend().name(), " backend has no kernel for ", refused, " of ",
                  g_.nodes().size(), " nodes:", refusals);
    }
  }

  std::span<const NodePlan> plans() const { return plans_; }
  PreparedKernel take(size_t node) { return std::move(kernels_[node]); }
  const std::set<ValueId>& unpacked() const { return unpacked_; }
  size_t slot_workspace() const { return slot_workspace_; }  // bytes, of each slot of the stretch
  size_t workspace() const {
    return std::max(workspace_, slot_workspace_ * static_cast<size_t>(stretch_.slots));
  }

 private:
  bool is_constant(ValueId v) const {
    return v != kNone && g_.value(v).data.defined() && !bound_.contains(v);
  }
  bool is_view_here(const Node& n) const {
    return is_view(n) || (n.op == "Reorder" &&
                          lie_alike(types_[index(n.inputs[0])], types_[index(n.outputs[0])]));
  }
  void reads(ValueId v) {
    if (is_constant(v)) unpacked_.insert(v);
  }

  uint64_t id(ValueId v) {
    auto [it, fresh] = ids_.try_emplace(v, 0);
    if (fresh) it->second = constant_id(g_.value(v).data);
    return it->second;
  }

  // Empty when a backend takes the node, else the reasons why none does.
  std::string ask(size_t i) {
    std::string refusal = ask(i, device_);
    const Device* fallback = device_.fallback();
    if (refusal.empty() || !fallback) return refusal;
    const Node& n = g_.nodes()[i];
    const auto plain = [&](ValueId v) { return v == kNone || is_row_major(types_[index(v)]); };
    if (!std::ranges::all_of(n.inputs, plain) || !std::ranges::all_of(n.outputs, plain)) {
      return refusal;
    }
    const std::string second = ask(i, *fallback);
    return second.empty() ? second : refusal + "; " + fallback->backend().name() + ": " + second;
  }

  std::string ask(size_t i, const Device& device) {
    const Node& n = g_.nodes()[i];
    const bool in_stretch = i < stretch_.nodes;
    AbiNode node(n, in_stretch ? within_ : types_);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const ValueId v = n.inputs[k];
      if (is_constant(v)) node.set_constant(k, g_.value(v).data.data(), id(v));
    }
    if (in_stretch) node.set_in_one_thread();
    if (whole_[i] != kNone) node.set_output_within(types_[index(whole_[i])]);
    ndt_prepared prepared{};
    prepared.struct_size = sizeof prepared;
    const ndt_status s = device.abi().prepare(device.handle(), &node.get(), &prepared);
    if (s == NDT_UNSUPPORTED) return device.abi().last_error();
    device.backend().check(s, "prepare " + n.op);
    kernels_[i] = PreparedKernel(device, prepared.kernel);
    plans_[i].in_place_inputs = prepared.in_place_inputs;
    size_t& workspace = in_stretch ? slot_workspace_ : workspace_;
    workspace = std::max(workspace, aligned(prepared.workspace));
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (!(k < 64 && (prepared.packed_inputs >> k & 1))) reads(n.inputs[k]);
    }
    return "";
  }

  const Graph& g_;
  std::span<const ndt_tensor_type> types_;
  const Device& device_;
  const std::set<ValueId>& bound_;
  const Stretch stretch_;
  const std::vector<ndt_tensor_type> within_;  // the types of its nodes
  std::vector<PreparedKernel> kernels_;
  std::vector<NodePlan> plans_;
  std::vector<ValueId> whole_;  // the joined value in which a node's output lies, or kNone
  std::set<ValueId> unpacked_;  // constants that a run reads as they are
  std::map<ValueId, uint64_t> ids_;
  size_t workspace_ = 0, slot_workspace_ = 0;
};

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

}  // namespace

namespace {

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

std::vector<ValueId> translated(std::span<const ValueId> values, std::span<const ValueId> now) {
  std::vector<ValueId> found;
  for (ValueId v : values) found.push_back(v == kNone ? kNone : now[index(v)]);
  return found;
}

// Graphs that are rewritten in turn, and where the values of the first are in the last.
class Rewriting {
 public:
  Rewriting(const Graph& g, std::span<const ValueId> bindings)
      : graph_(g), bindings_(bindings.begin(), bindings.end()) {
    for (size_t i = 0; i < g.value_count(); ++i) now_.push_back(static_cast<ValueId>(i));
  }

  using Pass = Rewritten (*)(const Graph&, std::span<const ValueId> keep, const Offer&);
  void apply(Pass pass, const Offer& accepts) {
    Rewritten r = pass(graph_, bindings_, accepts);
    graph_ = std::move(r.graph);
    bindings_ = translated(bindings_, r.now);
    now_ = translated(now_, r.now);
  }

  LaidOut lay_out(const Device& device) const {
    LaidOut laid = ndtrain::lay_out(graph_, device, {bindings_.begin(), bindings_.end()});
    laid.now = translated(now_, laid.now);
    return laid;
  }

 private:
  Graph graph_;
  std::vector<ValueId> bindings_, now_;
};

LaidOut adapted_to(const Device& device, const Graph& g, std::span<const ValueId> bindings) {
  const Offer kernel = [&](const Graph& with, const Node& n) { return takes(device, with, n); };
  const Offer layout = [&](const Graph& with, const Node& n) {
    return has_layout_for(device, with, n);
  };
  Rewriting rewriting(g, bindings);
  rewriting.apply(fuse_attention, kernel);
  rewriting.apply(fuse_matmul, layout);
  rewriting.apply(fuse_max_pool, layout);
  rewriting.apply(fuse_conv_elementwise, layout);
  rewriting.apply(fuse_elementwise, layout);
  return rewriting.lay_out(device);
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

  const auto prepare = [&](const Stretch& s) {
    auto asked = std::make_unique<Preparation>(g, laid.types, device, bound, s);
    if (options.reuse_memory) asked->join();
    asked->ask_all();
    return asked;
  };
  Stretch stretch;
  if (options.reuse_memory && options.bound_params.empty() && device.shares_host_memory()) {
    stretch = choose_stretch(g, laid.types, shared_threads().threads(), options.stretch);
  }
  std::unique_ptr<Preparation> asked;
  try {
    asked = prepare(stretch);
  } catch (const Error&) {  // perhaps of a kernel that takes the batch, but not a few images
    if (stretch.nodes == 0) throw;
    stretch = {};
    asked = prepare(stretch);
  }
  Preparation& preparation = *asked;
  const Placement placement =
      place_values(g, laid.types, preparation.plans(), bindings, options.reuse_memory, stretch);
  auto place = [&](ValueId v) { return v == kNone ? Place{} : placement.places[index(v)]; };

  std::vector<int> step_of_value(g.value_count(), -1);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (preparation.plans()[i].is_view) {
      step_of_value[index(n.outputs[0])] = step_of_value[index(n.inputs[0])];
      continue;
    }
    if (preparation.plans()[i].is_join) {
      for (ValueId v : n.inputs) {
        int& step = step_of_value[index(n.outputs[0])];
        step = std::max(step, step_of_value[index(v)]);
      }
      continue;
    }
    for (ValueId v : n.outputs) step_of_value[index(v)] = static_cast<int>(p.steps.size());
    Step s;
    s.kernel = preparation.take(i);
    s.op = n.op;
    s.name = g.value(n.outputs[0]).name;
    s.dtype = g.type(n.inputs.empty() ? n.outputs[0] : n.inputs[0]).dtype;
    s.operations = arithmetic(g, n);
    for (ValueId v : n.inputs) s.inputs.push_back(place(v));
    for (ValueId v : n.outputs) s.outputs.push_back(place(v));
    p.steps.push_back(std::move(s));
    if (i < stretch.nodes) p.stretch_steps = p.steps.size();
  }
  p.stretch = stretch;
  p.slots_at = placement.slots_at;
  p.slot_bytes = placement.slot_bytes;
  p.slot_workspace = preparation.slot_workspace();
  p.arena_bytes = placement.arena_bytes;
  p.workspace_bytes = preparation.workspace();
  p.copied_outputs = placement.copied_outputs;
  for (ValueId v : g.outputs()) p.output_places.push_back(place(v));

  std::set<ValueId> needed = preparation.unpacked();
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
