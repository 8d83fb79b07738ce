// FusedAttention in bf16, on a processor that has products of it: of each head both products by the
// library and its softmax between them, so that scores stay in the cache. A head is a task, so that
// bits depend neither on the batch nor on threads. f32 is the cpu plugin's, which is as fast.
#include <algorithm>

#include "backends/onednn/dnnl.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/softmax_loops.h"
#include "backends/plugin/attention_dims.h"

namespace ndtrain::onednn {
namespace {

constexpr int kMask = 3;

PrimitivePtr product(const Desc& a, const Desc& b, const Desc& y) {
  PrimitivePtr made = matmul(a, b, {}, y, {});
  if (made->algorithm().starts_with("brg")) return made;
  unsupported("oneDNN would use ", made->algorithm());
}

void check(const Node& node) {
  if (node.in(0).dtype != NDT_BF16) unsupported("it is not of bf16");
  if (!has_bf16()) unsupported("this processor has no products of bf16");
  if (node.has_output(1)) unsupported("it is asked for the sums of its softmax");
  for (int k = 0; k < node.inputs(); ++k) {
    if (!node.has(k)) continue;
    if (node.in(k).dtype != node.in(0).dtype) unsupported("mixed dtypes");
    if (!lies(node.in(k), Layout::kPlain)) unsupported("it does not lie plain");
  }
  if (!lies(node.out(), Layout::kPlain)) unsupported("its output does not lie plain");
}

// Rows of a head one behind the other.
void gather(const void* from, HeadRows rows, int64_t count, int64_t n, uint16_t* to) {
  const uint16_t* row = static_cast<const uint16_t*>(from) + rows.first;
  for (int64_t r = 0; r < count; ++r, row += rows.step, to += n) std::copy_n(row, n, to);
}

void scatter(const uint16_t* from, HeadRows rows, int64_t count, int64_t n, void* to) {
  uint16_t* row = static_cast<uint16_t*>(to) + rows.first;
  for (int64_t r = 0; r < count; ++r, row += rows.step, from += n) std::copy_n(from, n, row);
}

class Attention final : public Kernel {
 public:
  explicit Attention(const Node& node)
      : d_(node, 0), mask_(node, kMask, d_), slots_(std::max(threads(), 1)) {
    scores_ = product(plain_desc({d_.queries, d_.depth}, NDT_BF16),
                      transposed_desc({d_.depth, d_.keys}, NDT_BF16),
                      plain_desc({d_.queries, d_.keys}, NDT_F32));
    results_ = product(plain_desc({d_.queries, d_.keys}, NDT_BF16),
                       plain_desc({d_.keys, d_.width}, NDT_BF16),
                       plain_desc({d_.queries, d_.width}, NDT_BF16));
    constexpr int64_t kMostLanes = 16;
    q_ = add(d_.queries * std::max(d_.depth, d_.width) * 2);
    k_ = add(d_.keys * d_.depth * 2);
    v_ = add(d_.keys * d_.width * 2);
    of_keys_ = add(d_.queries * d_.keys * 4);
    weights_ = add(d_.queries * d_.keys * 2);
    row_ = add((d_.keys + kMostLanes) * 4);
    library_ = add(static_cast<int64_t>(std::max(scores_->scratch(), results_->scratch())));
    workspace_bytes = static_cast<size_t>(slots_) * slot_;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    parallel_tasks(d_.all_heads(), slots_, [&](int64_t head, int slot) {
      attend(head, in, out, static_cast<std::byte*>(workspace) + static_cast<size_t>(slot) * slot_);
    });
  }

 private:
  size_t add(int64_t bytes) {
    const size_t at = slot_;
    slot_ += whole_lines(static_cast<size_t>(bytes));
    return at;
  }

  void attend(int64_t head, const void* const* in, void* const* out, std::byte* scratch) const {
    const auto part = [&](size_t at) { return reinterpret_cast<uint16_t*>(scratch + at); };
    gather(in[0], d_.query_rows(head), d_.queries, d_.depth, part(q_));
    gather(in[d_.port(0, 1)], d_.key_rows(head), d_.keys, d_.depth, part(k_));
    gather(in[d_.port(0, 2)], d_.value_rows(head), d_.keys, d_.width, part(v_));
    void* const first[] = {part(q_), part(k_), part(of_keys_)};
    scores_->run(first, scratch + library_);
    const auto* scores = reinterpret_cast<const float*>(scratch + of_keys_);
    auto* row = reinterpret_cast<float*>(scratch + row_);
    const auto* mask = mask_.present ? static_cast<const uint16_t*>(in[kMask]) : nullptr;
    if (mask) mask += mask_.first(head, d_);
    for (int64_t r = 0; r < d_.queries; ++r) {
      const MaskRow of_row{mask ? mask + r * mask_.query : nullptr, mask_.key};
      softmax_(scores + r * d_.keys, d_.keys, d_.scale, of_row, row, part(weights_) + r * d_.keys);
    }
    void* const second[] = {part(weights_), part(v_), part(q_)};
    results_->run(second, scratch + library_);
    scatter(part(q_), d_.result_rows(head), d_.queries, d_.width, out[0]);
  }

  AttentionDims d_;
  MaskSteps mask_;
  int slots_;
  PrimitivePtr scores_, results_;
  SoftmaxRow softmax_ = v4::softmax_row();
  // Bytes of a thread's scratch, and where its parts begin: q's are the results' too.
  size_t slot_ = 0, q_ = 0, k_ = 0, v_ = 0, of_keys_ = 0, weights_ = 0, row_ = 0, library_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> prepare_attention(const ndt_device&, const Node& node) {
  check(node);
  return std::make_unique<Attention>(node);
}

void prefer_attention(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  for (int k = 0; k < node.inputs(); ++k) {
    if (node.has(k)) set_layout(in[k], Layout::kPlain);
  }
  set_layout(out[0], Layout::kPlain);
  const ndt_node wanted = node.with(in, out);
  check(Node(wanted));
}

}  // namespace ndtrain::onednn
