#include "framework/runtime/stretch.h"

#include <algorithm>
#include <string_view>

#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

constexpr int64_t kSlicesAThread = 2;  // at least, so that no thread waits long for another

// Ops that compute each image, the first axis, for itself; those in `elementwise` with constants
// that are the same for all images.
bool by_image(const Graph& g, const Node& n, int64_t batch) {
  constexpr std::string_view kWeighted[] = {"Conv", "FusedConv", "ConvMaxPool", "FusedQLinearConv"};
  constexpr std::string_view kElementwise[] = {"MaxPool",
                                               "AveragePool",
                                               "GlobalAveragePool",
                                               "Relu",
                                               "LeakyRelu",
                                               "Clip",
                                               "Sigmoid",
                                               "HardSwish",
                                               "HardSigmoid",
                                               "Gelu",
                                               "QuantizeLinear",
                                               "DequantizeLinear",
                                               "Add",
                                               "Mul",
                                               "Reorder"};
  if (n.outputs.size() != 1 || g.shape(n.outputs[0]).rank() < 2) return false;
  if (std::ranges::find(kWeighted, n.op) != std::end(kWeighted)) return true;
  if (n.op == "Concat") return n.attrs.i("axis") == 1;
  if (std::ranges::find(kElementwise, n.op) == std::end(kElementwise)) return false;
  return std::ranges::none_of(n.inputs, [&](ValueId v) {
    return v != kNone && g.value(v).data.defined() &&
           g.shape(v).rank() == g.shape(n.outputs[0]).rank() && g.shape(v)[0] == batch;
  });
}

struct Weight {
  size_t constants = 0, batch = 0;  // bytes
};

Weight weight_of(const Graph& g, std::span<const ndt_tensor_type> types, const Node& n) {
  Weight w{.batch = extent_bytes(types[index(n.outputs[0])])};
  for (const ValueId v : n.inputs) {
    if (v == kNone) continue;
    const bool constant = g.value(v).data.defined();
    (constant ? w.constants : w.batch) += extent_bytes(types[index(v)]);
  }
  return w;
}

bool has_batch(const Graph& g, const Node& n, int64_t batch) {
  const auto fits = [&](ValueId v) {
    return v == kNone || g.value(v).data.defined() ||
           (g.shape(v).rank() > 0 && g.shape(v)[0] == batch);
  };
  return std::ranges::all_of(n.inputs, fits) && std::ranges::all_of(n.outputs, fits);
}

// 0: the batch does not share out.
int64_t images_at_a_time(int64_t batch, int threads, int64_t most) {
  for (int64_t images = most; images > 0; --images) {
    const int64_t slices = batch / images;
    if (batch % images == 0 && slices % threads == 0 && slices >= kSlicesAThread * threads) {
      return images;
    }
  }
  return 0;
}

}  // namespace

Stretch choose_stretch(const Graph& g, std::span<const ndt_tensor_type> types, int threads,
                       const StretchRule& rule) {
  if (g.inputs().empty() || g.shape(g.inputs()[0]).rank() == 0) return {};
  const int64_t batch = g.shape(g.inputs()[0])[0];
  const int64_t images = images_at_a_time(batch, threads, rule.images);
  if (images == 0) return {};
  Stretch s{.images = images, .slices = batch / images};
  size_t heaviest = 0;
  for (const Node& n : g.nodes()) {
    if (!by_image(g, n, batch) || !has_batch(g, n, batch)) break;
    const Weight w = weight_of(g, types, n);
    if (w.constants * rule.outweigh > w.batch / static_cast<size_t>(batch)) break;
    heaviest = std::max(heaviest, w.batch);
    ++s.nodes;
  }
  if (s.nodes < 2 || heaviest < rule.cache) return {};
  s.slots = static_cast<int>(std::min<int64_t>(threads, s.slices));
  return s;
}

std::vector<ndt_tensor_type> types_within(const Stretch& s, const Graph& g,
                                          std::span<const ndt_tensor_type> types) {
  std::vector<ndt_tensor_type> within(types.begin(), types.end());
  const auto narrow = [&](ValueId v) {
    if (v != kNone && !g.value(v).data.defined()) within[index(v)].dims[0] = s.images;
  };
  for (size_t i = 0; i < s.nodes; ++i) {
    std::ranges::for_each(g.nodes()[i].inputs, narrow);
    std::ranges::for_each(g.nodes()[i].outputs, narrow);
  }
  return within;
}

}  // namespace ndtrain
