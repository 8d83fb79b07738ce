// FusedAttention: y = softmax(scale q k^T + mask) v, by tiles (attention_tiles.h). Of a row of
// scores only its largest number and the sum of its exponentials are kept from one block of keys to
// the next; what is summed up of the values shrinks when a larger one is met. A task is some panels
// of one head's queries, so that bits depend neither on threads nor on the batch. y^T is made, as
// values^T by weights, and turned over at the end.
#include <limits>

#include "backends/cpu/kernels/attention_tiles.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kMostPanels = 8;  // of a task: what they keep stays in L2
constexpr int64_t kTasksPerThread = 3;

// A query's scores so far: the largest, the sum of e^(score - largest), and what a larger one has
// just made of the sums before.
struct Running {
  float top[kTileCols], sum[kTileCols], shrink[kTileCols];
};

// Scores become weights: e^(score - largest so far).
template <int N>
void weigh(float* scores, int64_t keys, Running& r) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  float top[N], base[N], sum[N] = {};
  std::copy_n(r.top, N, top);
  for (int64_t t = 0; t < keys; ++t) {
    const float* row = scores + t * kTileCols;
    for (int j = 0; j < N; ++j) top[j] = row[j] > top[j] ? row[j] : top[j];
  }
  for (int j = 0; j < N; ++j) {
    base[j] = top[j] == kNone ? 0 : top[j];  // where all is masked the weights are 0
    r.shrink[j] = math::exp(r.top[j] - base[j]);
    r.top[j] = top[j];
  }
  for (int64_t t = 0; t < keys; ++t) {
    float* row = scores + t * kTileCols;
#pragma GCC ivdep
    for (int j = 0; j < N; ++j) {
      const float weight = math::exp(row[j] - base[j]);
      row[j] = weight;
      sum[j] += weight;
    }
  }
  for (int j = 0; j < N; ++j) r.sum[j] = r.sum[j] * r.shrink[j] + sum[j];
}

template <typename T>
class Attention final : public Kernel {
 public:
  explicit Attention(const Node& node)
      : s_(node, 0), mask_(node, 3, s_), blocks_(s_.keys), slots_(std::max(threads(), 1)) {
    if (node.has(3) && node.in(3).dtype != node.in(0).dtype) unsupported("mixed dtypes");
    sums_ = node.has_output(1);
    const int64_t heads = s_.all_heads(), panels = s_.panels();
    chunks_ = ceil_div(panels, kMostPanels);
    if (slots_ > 1 && heads * chunks_ < kTasksPerThread * slots_) {
      chunks_ = std::min(panels, ceil_div(kTasksPerThread * slots_, heads));
    }
    const int64_t most = ceil_div(panels, chunks_), keys = blocks_.longest();
    keys_at_ = parts_.add(keys * s_.depth);
    values_at_ = parts_.add(keys * s_.width);
    queries_at_ = parts_.add(most * s_.depth * kTileCols);
    results_at_ = parts_.add(most * s_.width * kTileCols);
    running_at_ = parts_.add(most * static_cast<int64_t>(sizeof(Running) / sizeof(float)));
    scores_at_ = parts_.add(keys * kTileCols);
    if constexpr (!std::is_same_v<T, float>) {
      rows_at_ = parts_.add(std::max<int64_t>(keys, kTileCols) * std::max(s_.depth, s_.width));
    }
    workspace_bytes = static_cast<size_t>(slots_ * parts_.floats()) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    parallel_tasks(s_.all_heads() * chunks_, slots_, [&](int64_t task, int slot) {
      run_task(task, in, out, as<float>(workspace) + slot * parts_.floats());
    });
  }

 private:
  // Some rows as floats: themselves, or a copy one behind the other.
  struct Floats {
    const float* data;
    int64_t step;
  };
  Floats floats(const void* tensor, HeadRows rows, int64_t first, int64_t count, int64_t n,
                float* room) const {
    const T* from = as<T>(tensor) + rows.first + first * rows.step;
    if constexpr (std::is_same_v<T, float>) {
      return {from, rows.step};
    } else {
      for (int64_t r = 0; r < count; ++r) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) room[r * n + i] = from[r * rows.step + i];
      }
      return {room, n};
    }
  }

  void run_task(int64_t task, const void* const* in, void* const* out, float* scratch) const {
    const int64_t head = task / chunks_, chunk = task % chunks_, panels = s_.panels();
    const int64_t first = chunk * panels / chunks_, last = (chunk + 1) * panels / chunks_;
    const void* mask = mask_.present() ? in[3] : nullptr;
    pack_queries(in[0], head, first, last, scratch);
    for (int64_t b = 0; b < blocks_.count(); ++b) {
      pack_keys(in[s_.port(0, 1)], in[s_.port(0, 2)], head, b, scratch);
      for (int64_t p = first; p < last; ++p) attend(mask, head, p, p - first, b, scratch);
    }
    for (int64_t p = first; p < last; ++p) finish(head, p, p - first, scratch, out);
  }

  void pack_queries(const void* q, int64_t head, int64_t first, int64_t last,
                    float* scratch) const {
    const HeadRows rows = s_.query_rows(head);
    const int64_t size = s_.depth * kTileCols;
    for (int64_t p = first; p < last; ++p) {
      const int64_t n = s_.queries_of(p);
      const Floats from = floats(q, rows, p * kTileCols, n, s_.depth, scratch + rows_at_);
      float* to = scratch + queries_at_ + (p - first) * size;
      pack_cols(from.data, 1, from.step, s_.depth, n, 0, 1, to);
      for (int64_t i = 0; i < size; ++i) to[i] *= s_.scale;
      Running& r = running(scratch, p - first);
      std::fill_n(r.top, kTileCols, -std::numeric_limits<float>::infinity());
      std::fill_n(r.sum, kTileCols, 0.0f);
    }
  }

  void pack_keys(const void* k, const void* v, int64_t head, int64_t block, float* scratch) const {
    const int64_t from = blocks_.begin(block), n = blocks_.begin(block + 1) - from;
    const RowPanels keys(n), columns(s_.width);
    const Floats key = floats(k, s_.key_rows(head), from, n, s_.depth, scratch + rows_at_);
    pack_rows(key.data, key.step, 1, s_.depth, keys, 0, keys.count(), scratch + keys_at_);
    const Floats value = floats(v, s_.value_rows(head), from, n, s_.width, scratch + rows_at_);
    pack_rows(value.data, 1, value.step, n, columns, 0, columns.count(), scratch + values_at_);
  }

  // One block of keys and one panel of queries.
  void attend(const void* mask, int64_t head, int64_t panel, int64_t at, int64_t block,
              float* scratch) const {
    const int64_t from = blocks_.begin(block), n = blocks_.begin(block + 1) - from;
    const int64_t lanes = s_.lanes_of(panel);
    float *scores = scratch + scores_at_, *y = results(scratch, at);
    multiply_panel(scratch + keys_at_, RowPanels(n), s_.depth,
                   scratch + queries_at_ + at * s_.depth * kTileCols, lanes, scores, false);
    if (mask) mask_.add(as<T>(mask), head, panel, from, n, scores);
    Running& r = running(scratch, at);
    lanes == kLanes ? weigh<kLanes>(scores, n, r) : weigh<kTileCols>(scores, n, r);
    if (block > 0) {
      for (int64_t e = 0; e < s_.width; ++e) {
        for (int64_t j = 0; j < lanes; ++j) y[e * kTileCols + j] *= r.shrink[j];
      }
    }
    multiply_panel(scratch + values_at_, RowPanels(s_.width), n, scores, lanes, y, block > 0);
  }

  void finish(int64_t head, int64_t panel, int64_t at, float* scratch, void* const* out) const {
    const int64_t n = s_.queries_of(panel);
    const Running& r = running(scratch, at);
    alignas(64) float share[kTileCols] = {};
    for (int64_t j = 0; j < n; ++j) share[j] = 1 / r.sum[j];
    const HeadRows rows = s_.result_rows(head);
    store_upright(results(scratch, at), s_.width, share, n,
                  as<T>(out[0]) + rows.first + panel * kTileCols * rows.step, rows.step);
    if (!sums_) return;
    float* sums = as<float>(out[1]) + head * s_.queries + panel * kTileCols;
    for (int64_t j = 0; j < n; ++j) sums[j] = r.top[j] + math::log(r.sum[j]);
  }

  float* results(float* scratch, int64_t at) const {
    return scratch + results_at_ + at * s_.width * kTileCols;
  }
  Running& running(float* scratch, int64_t at) const {
    return reinterpret_cast<Running*>(scratch + running_at_)[at];
  }

  AttentionShape s_;
  AttentionMask mask_;
  KeyBlocks blocks_;
  int slots_;
  bool sums_;
  int64_t chunks_ = 1;  // of a head's panels
  FloatParts parts_;    // of a thread's scratch
  int64_t keys_at_, values_at_, queries_at_, results_at_, running_at_, scores_at_, rows_at_ = 0;
};

std::unique_ptr<Kernel> attention_kernel(const Node& node) {
  switch (node.in(0).dtype) {
    case NDT_F32:
      return std::make_unique<Attention<float>>(node);
    case NDT_F16:
      return std::make_unique<Attention<F16>>(node);
    case NDT_BF16:
      return std::make_unique<Attention<BF16>>(node);
    default:
      unsupported("no attention of dtype ", name_of(node.in(0).dtype));
  }
}

const Registered registered{{"FusedAttention", attention_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
