// FusedAttentionGrad, by the tiles of attention_tiles.h: a block of keys by a panel of queries at a
// time the weights are computed again, p = e^(score - l), and with d = rowsum(dy * y)
//   ds = p * (dy v^T - d), dq = scale ds k, dk = ds^T (scale q), dv = p^T dy.
// Weights and their gradients of a few panels are packed as left sides for dk and dv, so that these
// are sums over many queries at a time. A task is a head: what is summed up in it has one order.
#include "backends/cpu/kernels/attention_tiles.h"
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

enum Input { kDy, kQ, kK, kV, kY, kSums, kMask };

constexpr int64_t kGroup = 4;  // panels of queries

// Of the scores p, of dy v^T ds.
template <int N>
void differentiate(float* scores, float* ds, int64_t keys, const float* sums, const float* d) {
  for (int64_t t = 0; t < keys; ++t) {
    float *p = scores + t * kTileCols, *to = ds + t * kTileCols;
#pragma GCC ivdep
    for (int j = 0; j < N; ++j) {
      const float weight = math::exp(p[j] - sums[j]);
      p[j] = weight;
      to[j] = weight * (to[j] - d[j]);
    }
  }
}

class AttentionGrad final : public Kernel {
 public:
  explicit AttentionGrad(const Node& node)
      : s_(node, kQ), mask_(node, kMask, s_), blocks_(s_.keys), slots_(std::max(threads(), 1)) {
    for (int i = 0; i < node.inputs(); ++i) {
      if (node.has(i) && node.in(i).dtype != NDT_F32) unsupported("an input that is not f32");
    }
    const int64_t keys = blocks_.longest(), queries = kGroup * kTileCols;
    keys_at_ = parts_.add(keys * s_.depth);
    columns_at_ = parts_.add(keys * s_.depth);
    values_at_ = parts_.add(keys * s_.width);
    query_at_ = parts_.add(s_.depth * kTileCols);
    dy_at_ = parts_.add(s_.width * kTileCols);
    queries_at_ = parts_.add(queries * col_panels(s_.depth) * kTileCols);
    dys_at_ = parts_.add(queries * col_panels(s_.width) * kTileCols);
    scores_at_ = parts_.add(keys * kTileCols);
    ds_at_ = parts_.add(keys * kTileCols);
    weights_at_ = parts_.add(keys * queries);
    slopes_at_ = parts_.add(keys * queries);
    dq_at_ = parts_.add(s_.panels() * s_.depth * kTileCols);
    rows_at_ = parts_.add(s_.panels() * 2 * kTileCols);
    workspace_bytes = static_cast<size_t>(slots_ * parts_.floats()) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override;

 private:
  class Task;

  AttentionShape s_;
  AttentionMask mask_;
  KeyBlocks blocks_;
  int slots_;
  FloatParts parts_;  // of a thread's scratch
  int64_t keys_at_, columns_at_, values_at_, query_at_, dy_at_, queries_at_, dys_at_, scores_at_,
      ds_at_, weights_at_, slopes_at_, dq_at_, rows_at_;
};

class AttentionGrad::Task {
 public:
  Task(const AttentionGrad& of, int64_t head, const void* const* in, void* const* out,
       float* scratch)
      : of_(of),
        s_(of.s_),
        head_(head),
        in_(in),
        q_(s_.query_rows(head)),
        k_(s_.key_rows(head)),
        v_(s_.value_rows(head)),
        y_(s_.result_rows(head)),
        dq_(as<float>(out[0]) + q_.first),
        dk_(as<float>(out[s_.port(0, 1)]) + k_.first),
        dv_(as<float>(out[s_.port(0, 2)]) + v_.first),
        scratch_(scratch) {}

  void run() {
    read_rows();
    for (int64_t b = 0; b < of_.blocks_.count(); ++b) {
      key_ = of_.blocks_.begin(b);
      keys_ = of_.blocks_.begin(b + 1) - key_;
      pack_keys();
      for (int64_t p = 0; p < s_.panels(); p += kGroup) {
        group(p, std::min(s_.panels(), p + kGroup), b);
      }
    }
    alignas(64) float factor[kTileCols];
    std::fill_n(factor, kTileCols, s_.scale);
    for (int64_t p = 0; p < s_.panels(); ++p) {
      store_upright(dq(p), s_.depth, factor, s_.queries_of(p), dq_ + p * kTileCols * q_.step,
                    q_.step);
    }
  }

 private:
  const float* input(int i, const HeadRows& rows) const { return as<float>(in_[i]) + rows.first; }
  float* dq(int64_t panel) { return scratch_ + of_.dq_at_ + panel * s_.depth * kTileCols; }
  float* sums(int64_t panel) { return scratch_ + of_.rows_at_ + panel * 2 * kTileCols; }

  // l and d of every query; 0 behind the last one.
  void read_rows() {
    const float *dy = input(kDy, y_), *y = input(kY, y_);
    std::fill_n(sums(0), s_.panels() * 2 * kTileCols, 0.0f);
    for (int64_t s = 0; s < s_.queries; ++s) {
      float* to = sums(s / kTileCols) + s % kTileCols;
      const int64_t at = s * y_.step;
      to[0] = as<float>(in_[kSums])[head_ * s_.queries + s];
      to[kTileCols] = sum_row<float>(s_.width, [=](int64_t e) { return dy[at + e] * y[at + e]; });
    }
  }

  void pack_keys() {
    const RowPanels keys(keys_), columns(s_.depth);
    const float* k = input(s_.port(kQ, 1), k_) + key_ * k_.step;
    pack_rows(k, k_.step, 1, s_.depth, keys, 0, keys.count(), scratch_ + of_.keys_at_);
    pack_rows(k, 1, k_.step, keys_, columns, 0, columns.count(), scratch_ + of_.columns_at_);
    pack_rows(input(s_.port(kQ, 2), v_) + key_ * v_.step, v_.step, 1, s_.width, keys, 0,
              keys.count(), scratch_ + of_.values_at_);
  }

  // Some panels of queries by the keys of one block.
  void group(int64_t first, int64_t last, int64_t block) {
    const int64_t query = first * kTileCols;
    const int64_t n = std::min(s_.queries, last * kTileCols) - query;
    float *queries = scratch_ + of_.queries_at_, *dys = scratch_ + of_.dys_at_;
    pack_cols(input(kQ, q_) + query * q_.step, q_.step, 1, n, s_.depth, 0, col_panels(s_.depth),
              queries);
    scale(queries, n * col_panels(s_.depth) * kTileCols);
    pack_cols(input(kDy, y_) + query * y_.step, y_.step, 1, n, s_.width, 0, col_panels(s_.width),
              dys);
    for (int64_t p = first; p < last; ++p) panel(p, (p - first) * kTileCols, n, block > 0);
    add_up(scratch_ + of_.slopes_at_, n, queries, dk_ + key_ * k_.step, s_.depth, k_.step,
           first > 0);
    add_up(scratch_ + of_.weights_at_, n, dys, dv_ + key_ * v_.step, s_.width, v_.step, first > 0);
  }

  // Adds to dq, and packs weights and their gradients as columns `before` and on of `n`.
  void panel(int64_t p, int64_t before, int64_t n, bool add) {
    const RowPanels keys(keys_), columns(s_.depth);
    const int64_t lanes = s_.lanes_of(p), own = s_.queries_of(p);
    float *query = scratch_ + of_.query_at_, *dy = scratch_ + of_.dy_at_;
    float *scores = scratch_ + of_.scores_at_, *ds = scratch_ + of_.ds_at_;
    pack_cols(input(kQ, q_), 1, q_.step, s_.depth, s_.queries, p, p + 1, query);
    scale(query, s_.depth * kTileCols);
    pack_cols(input(kDy, y_), 1, y_.step, s_.width, s_.queries, p, p + 1, dy);
    multiply_panel(scratch_ + of_.keys_at_, keys, s_.depth, query, lanes, scores, false);
    multiply_panel(scratch_ + of_.values_at_, keys, s_.width, dy, lanes, ds, false);
    if (of_.mask_.present()) {
      of_.mask_.add(as<float>(in_[kMask]), head_, p, key_, keys_, scores);
    }
    const float *l = sums(p), *d = l + kTileCols;
    lanes == kLanes ? differentiate<kLanes>(scores, ds, keys_, l, d)
                    : differentiate<kTileCols>(scores, ds, keys_, l, d);
    multiply_panel(scratch_ + of_.columns_at_, columns, keys_, ds, lanes, dq(p), add);
    for (int64_t r = 0; r < keys.count(); ++r) {
      const int64_t to = keys.begin(r) * n + before * keys.height(r);
      pack_rows(scores, kTileCols, 1, own, keys, r, r + 1, scratch_ + of_.weights_at_ + to);
      pack_rows(ds, kTileCols, 1, own, keys, r, r + 1, scratch_ + of_.slopes_at_ + to);
    }
  }

  // to [keys of the block][cols] (+)= left by right, over n queries.
  void add_up(const float* left, int64_t n, const float* right, float* to, int64_t cols,
              int64_t step, bool add) const {
    const RowPanels keys(keys_);
    multiply({keys, 0, keys.count(), 0, cols, to},
             {left, n, 0, n, right, n * kTileCols, true, true}, {to, cols, 0, step},
             {.residual = add ? to : nullptr});
  }

  void scale(float* x, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) x[i] *= s_.scale;
  }

  const AttentionGrad& of_;
  const AttentionShape& s_;
  int64_t head_;
  const void* const* in_;
  HeadRows q_, k_, v_, y_;
  float *dq_, *dk_, *dv_;
  float* scratch_;
  int64_t key_ = 0, keys_ = 0;  // of the block
};

void AttentionGrad::run(const void* const* in, void* const* out, void* workspace) const {
  parallel_tasks(s_.all_heads(), slots_, [&](int64_t head, int slot) {
    Task(*this, head, in, out, as<float>(workspace) + slot * parts_.floats()).run();
  });
}

std::unique_ptr<Kernel> attention_grad_kernel(const Node& node) {
  if (is_half(node.in(kQ).dtype)) return by_way_of_f32(node, attention_grad_kernel);
  return std::make_unique<AttentionGrad>(node);
}

const Registered registered{{"FusedAttentionGrad", attention_grad_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
