#include <map>

#include "framework/graph/op.h"

namespace ndtrain {

#define OPS(family) std::vector<OpDef> family##_ops();
#include "framework/ops/ops.inc"
#undef OPS

namespace {

const std::vector<OpDef>& table() {
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all;
    auto append = [&](std::vector<OpDef> family) {
      for (OpDef& op : family) all.push_back(std::move(op));
    };
#define OPS(family) append(family##_ops());
#include "framework/ops/ops.inc"
#undef OPS
    return all;
  }();
  return ops;
}

}  // namespace

const OpDef* try_find_op(std::string_view name) {
  static const std::map<std::string_view, const OpDef*> by_name = [] {
    std::map<std::string_view, const OpDef*> m;
    for (const OpDef& op : table()) {
      if (!m.emplace(op.name, &op).second) throw Error("op ", op.name, " is defined twice");
    }
    return m;
  }();
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

const OpDef& find_op(std::string_view name) {
  if (const OpDef* op = try_find_op(name)) return *op;
  throw Error("unknown op ", name);
}

std::span<const OpDef> all_ops() { return table(); }

}  // namespace ndtrain
