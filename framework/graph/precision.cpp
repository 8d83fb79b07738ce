#include "framework/graph/precision.h"

#include <sstream>

namespace ndtrain {
namespace {

constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "int8"};

}  // namespace

std::string_view name_of(Precision p) { return kNames[static_cast<size_t>(p)]; }

Precision precision_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Precision>(i);
  }
  throw Error("precision '", name, "': there are f32, bf16, f16 and int8");
}

Precision declared_precision(const Model& model) {
  const auto it = model.metadata.find(kPrecisionKey);
  return it == model.metadata.end() ? Precision::kF32 : precision_named(it->second);
}

std::vector<std::string> precision_until(const Model& model) {
  std::vector<std::string> names;
  const auto it = model.metadata.find(kPrecisionUntilKey);
  if (it == model.metadata.end()) return names;
  std::istringstream lines(it->second);
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

void declare_precision(Model& model, Precision p, std::span<const std::string> until) {
  model.metadata.erase(kPrecisionKey);
  model.metadata.erase(kPrecisionUntilKey);
  if (p == Precision::kF32) return;
  model.metadata[kPrecisionKey] = std::string(name_of(p));
  for (const std::string& name : until) model.metadata[kPrecisionUntilKey] += name + "\n";
}

}  // namespace ndtrain
