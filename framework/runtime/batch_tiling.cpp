#include "framework/runtime/batch_tiling.h"

#include <algorithm>

#include "framework/graph/op.h"
#include "framework/runtime/layout.h"

namespace ndtrain {
namespace {

constexpr size_t kFewestNodes = 2;    // one alone has nothing to find in cache
constexpr int64_t kTilesAThread = 2;  // at least, so that no thread waits long for another

// Whether the node computes each image, of the first axis, for itself, with the same constants.
bool by_image(const Graph& g, const Node& n, int64_t batch) {
  if (n.outputs.size() != 1) return false;
  const int rank = g.shape(n.outputs[0]).rank();
  const auto of_batch = [&](ValueId v) {
    return g.shape(v).rank() == rank && rank > 1 && g.shape(v)[0] == batch;
  };
  const OpFacts& facts = find_op(n.op).facts;
  if (!of_batch(n.outputs[0]) || !facts.per_image || !facts.per_image(n.attrs, rank)) return false;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    const ValueId v = n.inputs[k];
    if (v == kNone) continue;
    const bool images = facts.has_images(static_cast<int>(k));
    const bool constant = g.value(v).data.defined();
    if (constant && images && of_batch(v)) return false;  // other ones for each image
    if (!constant && !(images && of_batch(v))) return false;
  }
  return true;
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

// 0: the batch does not share out.
int64_t images_at_a_time(int64_t batch, int threads, int64_t most) {
  for (int64_t images = most; images > 0; --images) {
    const int64_t tiles = batch / images;
    if (batch % images == 0 && tiles % threads == 0 && tiles >= kTilesAThread * threads) {
      return images;
    }
  }
  return 0;
}

}  // namespace

BatchTiling choose_tiling(const Graph& g, std::span<const ndt_tensor_type> types, int threads,
                          const TilingRule& rule) {
  if (g.inputs().empty() || g.shape(g.inputs()[0]).rank() == 0) return {};
  const int64_t batch = g.shape(g.inputs()[0])[0];
  const int64_t images = images_at_a_time(batch, threads, rule.images);
  if (images == 0) return {};
  BatchTiling s{.images = images, .tiles = batch / images};
  size_t heaviest = 0;
  for (const Node& n : g.nodes()) {
    if (!by_image(g, n, batch)) break;
    const Weight w = weight_of(g, types, n);
    const size_t image = w.batch / static_cast<size_t>(batch);
    if (w.constants > rule.light && w.constants * rule.outweigh > image) break;
    heaviest = std::max(heaviest, w.batch);
    ++s.nodes;
  }
  if (s.nodes < kFewestNodes || heaviest < rule.cache) return {};
  s.threads = static_cast<int>(std::min<int64_t>(threads, s.tiles));
  return s;
}

BatchTiling ending_before(BatchTiling tiling, size_t node) {
  tiling.nodes = std::min(tiling.nodes, node);
  return tiling.nodes < kFewestNodes ? BatchTiling{} : tiling;
}

std::vector<ndt_tensor_type> tile_types(const BatchTiling& t, const Graph& g,
                                        std::span<const ndt_tensor_type> types) {
  std::vector<ndt_tensor_type> within(types.begin(), types.end());
  const auto narrow = [&](ValueId v) {
    if (v != kNone && !g.value(v).data.defined()) within[index(v)].dims[0] = t.images;
  };
  for (size_t i = 0; i < t.nodes; ++i) {
    std::ranges::for_each(g.nodes()[i].inputs, narrow);
    std::ranges::for_each(g.nodes()[i].outputs, narrow);
  }
  return within;
}

}  // namespace ndtrain
