#include "framework/graph/share_constants.h"

#include <map>
#include <set>
#include <tuple>

namespace ndtrain {
namespace {

// Up to this many elements an integer constant is shape arithmetic rather than data.
constexpr int64_t kSmall = 64;

}  // namespace

void share_constants(Model& m) {
  const std::set<std::string> outputs(m.outputs.begin(), m.outputs.end());
  std::map<std::tuple<DType, std::vector<int64_t>, std::string>, std::string> first;
  std::set<std::string> used = outputs;
  for (ModelNode& n : m.nodes) {
    for (std::string& name : n.inputs) {
      const auto it = m.initialisers.find(name);
      if (it == m.initialisers.end()) continue;
      const Tensor& t = it->second;
      if (!is_float(t.type().dtype) && t.shape().count() <= kSmall && !outputs.contains(name)) {
        std::string bytes(static_cast<const char*>(t.data()), t.bytes());
        name = first.emplace(std::tuple(t.type().dtype, t.shape().dims(), std::move(bytes)), name)
                   .first->second;
      }
      used.insert(name);
    }
  }
  std::erase_if(m.initialisers, [&](const auto& entry) { return !used.contains(entry.first); });
}

}  // namespace ndtrain
