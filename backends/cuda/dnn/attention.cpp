// FusedAttention: o = softmax(scale * q k^T + mask) v over [batch, heads, sequence, depth], as the
// chain of operations for which cuDNN has fused kernels: products and softmax without writing the
// scores to memory. Where it has none, the host takes the node apart.
#include <cmath>

#include "backends/cuda/dnn/choose.h"
#include "backends/cuda/dnn/staged.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

enum Input { kQ, kK, kV, kMask };

constexpr int kOldestArchitecture = 80;
constexpr int64_t kDepthStep = 8;

struct Asked {
  ndt_tensor_type q, k, v, o;
  ndt_tensor_type mask{};  // absent, or of rank 4
  float scale = 1;
};

ndt_tensor_type of_rank_four(const ndt_tensor_type& t) {
  ndt_tensor_type wide = t;
  wide.rank = 4;
  for (int d = 0; d < 4; ++d) wide.dims[d] = d < 4 - t.rank ? 1 : t.dims[d - (4 - t.rank)];
  return row_major(wide);
}

ndt_tensor_type read_mask(const Node& node, const Asked& a) {
  const ndt_tensor_type& t = node.in(kMask);
  if (t.rank > 4 || (t.dtype != a.q.dtype && t.dtype != NDT_F32)) {
    unsupported("its mask is ", plugin::describe(t));
  }
  ndt_tensor_type mask = of_rank_four(t);
  const bool whole = mask.dims[2] == a.q.dims[2] && mask.dims[3] == a.k.dims[2];
  for (int d = 0; d < 2; ++d) {
    if (whole && (mask.dims[d] == 1 || mask.dims[d] == a.q.dims[d])) continue;
    unsupported("its mask ", plugin::describe(t), " is not of whole rows of all images or of each");
  }
  return mask;
}

Asked asked(const ndt_device& device, const Node& node) {
  if (node.i("heads_axis") != 1) unsupported("its heads lie behind the rows");
  if (node.has_output(1)) unsupported("the sums of its softmax are asked for");
  Asked a{.q = node.in(kQ), .k = node.in(kK), .v = node.in(kV), .o = node.out()};
  if (a.q.dtype != NDT_F16 && a.q.dtype != NDT_BF16) {
    unsupported("cuDNN's fused attention is for f16 and bf16, not ", plugin::name_of(a.q.dtype));
  }
  if (device.architecture < kOldestArchitecture) {
    unsupported("cuDNN's fused attention needs architecture ", kOldestArchitecture, ", this is ",
                device.architecture);
  }
  for (const ndt_tensor_type* t : {&a.q, &a.k, &a.v, &a.o}) {
    if (t->rank != 4 || t->dtype != a.q.dtype) unsupported("one of its ports is ", describe(*t));
    if (!is_row_major(*t)) unsupported("one of its ports is not row-major");
    if (count(*t) == 0) unsupported("it is empty");
    if (t->dims[3] % kDepthStep) unsupported("a depth of ", t->dims[3], " is no multiple of 8");
  }
  if (node.has(kMask)) a.mask = read_mask(node, a);
  a.scale = static_cast<float>(node.f("scale"));
  return a;
}

ndt_tensor_type for_images(ndt_tensor_type t, int64_t images) {
  t.dims[0] = images;
  return row_major(t);
}

ndt_tensor_type transposed(ndt_tensor_type t) {
  std::swap(t.dims[2], t.dims[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}

ndt_tensor_type mask_for(const Asked& a, int64_t images) {
  return for_images(a.mask, a.mask.dims[0] == 1 ? 1 : images);
}

// Bound: q, k, v, o, then the mask.
Graph attention_graph(const Asked& a, int64_t images) {
  Graph g;
  const ndt_tensor_type q = for_images(a.q, images), o = for_images(a.o, images);
  ndt_tensor_type scores = q, row = q;
  scores.dtype = row.dtype = NDT_F32;
  scores.dims[3] = a.k.dims[2];
  row.dims[3] = 1;
  scores = row_major(scores);
  row = row_major(row);
  ndt_tensor_type weights = scores;
  weights.dtype = q.dtype;  // what the second product takes

  const Graph::Uid q_id = g.bound(q), k_id = g.bound(transposed(for_images(a.k, images)));
  const Graph::Uid v_id = g.bound(for_images(a.v, images)), o_id = g.bound(o);
  const auto pointwise = [&](cudnnPointwiseMode_t mode, Graph::Uid x, Graph::Uid b,
                             const ndt_tensor_type& t) {
    const Graph::Uid y = g.between(t);
    g.pointwise(mode, NDT_F32, x, b, y);
    return y;
  };
  const auto reduced = [&](cudnnReduceTensorOp_t mode, Graph::Uid x) {
    const Graph::Uid y = g.between(row);
    g.reduce(mode, x, y);
    return y;
  };
  const Graph::Uid products = g.between(scores);
  g.matmul(q_id, k_id, products);
  Graph::Uid s = pointwise(CUDNN_POINTWISE_MUL, products, g.scalar(a.scale, 4), scores);
  if (a.mask.rank) s = pointwise(CUDNN_POINTWISE_ADD, s, g.bound(mask_for(a, images)), scores);
  const Graph::Uid top = reduced(CUDNN_REDUCE_TENSOR_MAX, s);
  const Graph::Uid less = pointwise(CUDNN_POINTWISE_SUB, s, top, scores);
  const Graph::Uid e = pointwise(CUDNN_POINTWISE_EXP, less, Graph::kNone, scores);
  const Graph::Uid sum = reduced(CUDNN_REDUCE_TENSOR_ADD, e);
  // Nobody reads the logarithm of the sums, but by it cuDNN knows the softmax of an attention.
  const Graph::Uid log = pointwise(CUDNN_POINTWISE_LOG, sum, Graph::kNone, row);
  pointwise(CUDNN_POINTWISE_ADD, top, log, row);
  const Graph::Uid p = pointwise(CUDNN_POINTWISE_DIV, e, sum, weights);
  g.matmul(p, v_id, o_id);
  return g;
}

std::string key_of(const Asked& a) {
  std::string key =
      text_of("attention ", plugin::name_of(a.q.dtype), " heads ", a.q.dims[1], " sequence ",
              a.q.dims[2], 'x', a.k.dims[2], " depth ", a.q.dims[3], 'x', a.v.dims[3]);
  if (a.mask.rank)
    key += text_of(" mask ", plugin::name_of(a.mask.dtype), ' ',
                   a.mask.dims[0] > 1 ? "each" : "all", ' ', a.mask.dims[1]);
  return key;
}

}  // namespace

std::unique_ptr<Kernel> prepare_attention(ndt_device& device, const Node& node) {
  using Role = Staged::Port::Role;
  const Asked a = asked(device, node);
  const PlanningHandle::Lease lease(device);
  const Layer layer{.key = key_of(a),
                    .graph = [&](int64_t images) { return attention_graph(a, images); },
                    .images = a.q.dims[0]};
  std::vector<Staged::Port> ports = {{Role::kInput, kQ, a.q, a.q},
                                     {Role::kInput, kK, a.k, a.k},
                                     {Role::kInput, kV, a.v, a.v},
                                     {Role::kOutput, 0, a.o, a.o}};
  if (a.mask.rank) ports.push_back({Role::kInput, kMask, a.mask, a.mask});
  return std::make_unique<Staged>(choose(device, lease.handle(), layer), std::move(ports),
                                  std::nullopt);
}

}  // namespace ndtrain::cuda
