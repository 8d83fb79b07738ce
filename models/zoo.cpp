#include "models/zoo.h"

#include <algorithm>
#include <array>
#include <set>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

constexpr int64_t kLargestSide = 8192;

using Architecture = Model (*)(const models::BuildOptions&);

constexpr std::array<ZooEntry, 10> kEntries = {{
    {"alexnet", "AlexNet of 2014, 61.1 M parameters", 224, 63},
    {"inception_v3", "Inception-v3 without auxiliary classifier, 23.8 M parameters", 299, 75},
    {"mobilenet_v2", "MobileNetV2, 3.5 M parameters", 224, 1},
    {"resnet18", "ResNet-18, 11.7 M parameters", 224, 1},
    {"resnet50", "ResNet-50, 25.6 M parameters", 224, 1},
    {"resnext101_32x4d", "ResNeXt-101 32x4d, 44.2 M parameters", 224, 1},
    {"squeezenet1_1", "SqueezeNet 1.1, 1.2 M parameters", 224, 21},
    {"tinynet", "three convolutions for small pictures, 24 k parameters", 48, 8},
    {"vit", "Vision Transformer of a given patch, depth, width and heads", 224, 1},
    {"vit_b_16", "ViT-B/16, 86.6 M parameters", 224, 16},
}};

constexpr std::array<Architecture, kEntries.size()> kArchitectures = {
    models::alexnet,  models::inception_v3,     models::mobilenet_v2,  models::resnet18,
    models::resnet50, models::resnext101_32x4d, models::squeezenet1_1, models::tinynet,
    models::vit,      models::vit_b_16};

void check(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(what, " is ", value, ", expected ", least, " to ", most);
}

}  // namespace

std::span<const ZooEntry> zoo() { return kEntries; }

const ZooEntry* find_in_zoo(std::string_view name) {
  const auto it = std::ranges::find(kEntries, name, &ZooEntry::name);
  return it == kEntries.end() ? nullptr : &*it;
}

Model build_model(std::string_view name, const ZooOptions& options) {
  const ZooEntry* entry = find_in_zoo(name);
  if (entry == nullptr) throw Error("there is no architecture '", name, "'");
  const int64_t img_size = options.img_size.value_or(entry->img_size);
  check("the number of classes", options.classes, 1, limits::kClasses);
  check(std::string(name) + ": the image size", img_size, entry->least_img_size, kLargestSide);
  return kArchitectures[static_cast<size_t>(entry - kEntries.data())](
      {options.classes, img_size, options.seed, options.vit});
}

int64_t parameter_count(const Model& m) {
  std::set<std::string> statistics;
  for (const ModelNode& n : m.nodes) {
    if (n.op == "BatchNormalization") statistics.insert({n.inputs.at(3), n.inputs.at(4)});
  }
  int64_t count = 0;
  for (const auto& [name, t] : m.initialisers) {
    const bool weight = is_float(t.type().dtype) && t.shape().rank() > 0;
    if (weight && !statistics.contains(name)) count += t.shape().count();
  }
  return count;
}

}  // namespace ndtrain
