#include "framework/runtime/preparation.h"

#include <algorithm>

#include "framework/core/hash.h"
#include "framework/runtime/abi_node.h"
#include "framework/runtime/arena.h"
#include "framework/runtime/join.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

uint64_t constant_id(const Tensor& t) {
  uint64_t seed = static_cast<uint64_t>(t.type().dtype);
  for (int64_t d : t.shape().dims()) seed = seed * 1'000'003 + static_cast<uint64_t>(d);
  return xxh3(t.data(), t.bytes(), seed);
}

}  // namespace

Preparation::Preparation(const Graph& g, std::span<const ndt_tensor_type> types,
                         const Device& device, const std::set<ValueId>& bound,
                         const Stretch& stretch)
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

void Preparation::join() {
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

void Preparation::ask_all() {
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

size_t Preparation::workspace() const {
  return std::max(workspace_, slot_workspace_ * static_cast<size_t>(stretch_.slots));
}

bool Preparation::is_constant(ValueId v) const {
  return v != kNone && g_.value(v).data.defined() && !bound_.contains(v);
}

bool Preparation::is_view_here(const Node& n) const {
  return is_view(n) ||
         (n.op == "Reorder" && lie_alike(types_[index(n.inputs[0])], types_[index(n.outputs[0])]));
}

void Preparation::reads(ValueId v) {
  if (is_constant(v)) unpacked_.insert(v);
}

uint64_t Preparation::id(ValueId v) {
  auto [it, fresh] = ids_.try_emplace(v, 0);
  if (fresh) it->second = constant_id(g_.value(v).data);
  return it->second;
}

std::string Preparation::ask(size_t i) {
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

std::string Preparation::ask(size_t i, const Device& device) {
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

}  // namespace ndtrain
