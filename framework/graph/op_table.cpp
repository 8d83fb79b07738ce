#include <map>

#include "framework/graph/op.h"

namespace ndtrain {
namespace {

struct Sources {
  std::vector<OpSource> all;
  bool read = false;
};

Sources& sources() {
  static Sources s;
  return s;
}

const std::vector<OpDef>& table() {
  static const std::vector<OpDef> ops = [] {
    sources().read = true;
    std::vector<OpDef> all;
    for (const OpSource source : sources().all) {
      for (OpDef& op : source()) all.push_back(std::move(op));
    }
    return all;
  }();
  return ops;
}

}  // namespace

bool add_ops(OpSource source) {
  if (sources().read) throw Error("ops are added once the table is read");
  sources().all.push_back(source);
  return true;
}

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
