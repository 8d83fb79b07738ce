// BatchNormalization that trains and its gradient, f32, blocked: there to keep the layout that
// convolutions give. Bound by memory: plain loops, a block of channels a task.
#include <array>
#include <cmath>

#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

constexpr int64_t kChunk = 256;  // pixels summed in float

// [N, C/b, plane, b] without gaps; B is b.
template <int B>
struct Blocks {
  int64_t images, channels, plane;

  using Lanes = std::array<float, B>;

  explicit Blocks(const ndt_tensor_type& x)
      : images(x.dims[0]), channels(x.dims[1]), plane(x.dims[2] * x.dims[3]) {}
  int64_t count() const { return (channels + B - 1) / B; }
  int64_t lanes(int64_t block) const { return std::min<int64_t>(B, channels - block * B); }
  float per_channel() const { return static_cast<float>(images * plane); }

  // body(index of the first of `n` pixels, n), image after image.
  template <typename F>
  void chunks(int64_t block, F&& body) const {
    for (int64_t i = 0; i < images; ++i) {
      const int64_t start = (i * count() + block) * plane;
      for (int64_t p = 0; p < plane; p += kChunk) {
        body((start + p) * B, std::min(kChunk, plane - p));
      }
    }
  }

  // The sum of term(index, lane) over the pixels of a block's channels, divided by their number.
  template <typename Term>
  Lanes mean(int64_t block, Term term) const {
    std::array<double, B> total{};
    chunks(block, [&](int64_t at, int64_t n) {
      Lanes sum{};
      for (int64_t p = 0; p < n; ++p, at += B) {
        for (int l = 0; l < B; ++l) sum[l] += term(at + l, l);
      }
      for (int l = 0; l < B; ++l) total[l] += sum[l];
    });
    Lanes means;
    for (int l = 0; l < B; ++l) {
      means[l] = static_cast<float>(total[l] / static_cast<double>(images * plane));
    }
    return means;
  }

  // y = value(index, lane) for every pixel of a block's channels; zero in the padding lanes.
  template <typename Value>
  void fill(int64_t block, float* y, Value value) const {
    chunks(block, [&](int64_t at, int64_t n) {
      for (int64_t p = 0; p < n; ++p, at += B) {
        for (int l = 0; l < B; ++l) y[at + l] = value(at + l, l);
      }
    });
  }

  // Of [C]: the block's channels; zero in the padding lanes.
  Lanes of(const void* values, int64_t block) const {
    Lanes lanes{};
    std::copy_n(static_cast<const float*>(values) + block * B, this->lanes(block), lanes.begin());
    return lanes;
  }
  void to(void* values, int64_t block, const Lanes& lanes) const {
    std::copy_n(lanes.begin(), this->lanes(block), static_cast<float*>(values) + block * B);
  }
};

template <int B>
struct Moments {
  typename Blocks<B>::Lanes mean, var;
};

template <int B>
Moments<B> moments(const Blocks<B>& at, const float* x, int64_t block) {
  Moments<B> m;
  m.mean = at.mean(block, [&](int64_t i, int) { return x[i]; });
  m.var = at.mean(block, [&](int64_t i, int l) { return (x[i] - m.mean[l]) * (x[i] - m.mean[l]); });
  return m;
}

template <int B>
class BatchNorm final : public Kernel {
 public:
  explicit BatchNorm(const Node& node)
      : at_(node.in(0)),
        epsilon_(static_cast<float>(node.f("epsilon"))),
        momentum_(static_cast<float>(node.f("momentum"))),
        running_{node.has_output(1), node.has_output(2)} {
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    const auto* x = static_cast<const float*>(in[0]);
    parallel_tasks(at_.count(), threads(), [&](int64_t block, int) {
      const Moments<B> m = moments(at_, x, block);
      auto factor = at_.of(in[1], block);
      const auto bias = at_.of(in[2], block);
      for (int l = 0; l < B; ++l) factor[l] /= std::sqrt(m.var[l] + epsilon_);
      at_.fill(block, static_cast<float*>(out[0]),
               [&](int64_t i, int l) { return (x[i] - m.mean[l]) * factor[l] + bias[l]; });
      for (const int k : {0, 1}) {
        if (!running_[k]) continue;
        auto kept = at_.of(in[3 + k], block);
        const auto& batch = k == 0 ? m.mean : m.var;
        for (int l = 0; l < B; ++l) kept[l] = momentum_ * kept[l] + (1 - momentum_) * batch[l];
        at_.to(out[1 + k], block, kept);
      }
    });
  }

 private:
  Blocks<B> at_;
  float epsilon_, momentum_;
  bool running_[2];
};

// With r = 1 / sqrt(var + epsilon), z = (x - mean) * r: dbias = sum dy, dscale = sum dy * z,
// dx = scale * r * (dy - dbias / n - z * dscale / n).
template <int B>
class BatchNormGrad final : public Kernel {
 public:
  explicit BatchNormGrad(const Node& node)
      : at_(node.in(1)), epsilon_(static_cast<float>(node.f("epsilon"))) {}

  void run(const void* const* in, void* const* out, void*) const override {
    const auto* dy = static_cast<const float*>(in[0]);
    const auto* x = static_cast<const float*>(in[1]);
    parallel_tasks(at_.count(), threads(), [&](int64_t block, int) {
      const Moments<B> m = moments(at_, x, block);
      const auto shift = at_.mean(block, [&](int64_t i, int) { return dy[i]; });
      auto slope = at_.mean(block, [&](int64_t i, int l) { return dy[i] * (x[i] - m.mean[l]); });
      auto factor = at_.of(in[2], block);
      typename Blocks<B>::Lanes dscale, dbias;
      for (int l = 0; l < B; ++l) {
        const float r = 1 / std::sqrt(m.var[l] + epsilon_);
        factor[l] *= r;
        dscale[l] = r * slope[l] * at_.per_channel();
        dbias[l] = shift[l] * at_.per_channel();
        slope[l] *= r * r;
      }
      at_.fill(block, static_cast<float*>(out[0]), [&](int64_t i, int l) {
        return factor[l] * (dy[i] - shift[l] - (x[i] - m.mean[l]) * slope[l]);
      });
      at_.to(out[1], block, dscale);
      at_.to(out[2], block, dbias);
    });
  }

 private:
  Blocks<B> at_;
  float epsilon_;
};

void check(const Node& node) {
  const bool back = node.op() == "BatchNormalizationGrad";
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.in(i).dtype != NDT_F32) unsupported("it is not f32 throughout");
  }
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (count(x) == 0) unsupported("it is empty");
  for (const ndt_tensor_type* t : {&x, &y, back ? &node.in(1) : &x}) {
    if (!lies(*t, Layout::kBlocked) || has_gaps(*t, Layout::kBlocked)) {
      unsupported("it is not blocked without gaps");
    }
  }
}

template <template <int> class K>
std::unique_ptr<Kernel> kernel_of(const Node& node) {
  check(node);
  if (block() == 16) return std::make_unique<K<16>>(node);
  return std::make_unique<K<8>>(node);
}

}  // namespace

std::unique_ptr<Kernel> prepare_batch_norm(const ndt_device& device, const Node& node) {
  if (node.i("training_mode") == 0) return prepare_channel_affine(device, node);
  return kernel_of<BatchNorm>(node);
}

std::unique_ptr<Kernel> prepare_batch_norm_grad(const ndt_device&, const Node& node) {
  return kernel_of<BatchNormGrad>(node);
}

void prefer_batch_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const bool back = node.op() == "BatchNormalizationGrad";
  if (!back && node.i("training_mode") == 0) return prefer_channel_affine(node, in, out);
  const int images = back ? 2 : 1;
  const bool blocked =
      std::any_of(in, in + images, [](const auto& t) { return lies(t, Layout::kBlocked); });
  if (!blocked) unsupported("nothing that it reads is blocked");
  for (int i = 0; i < images; ++i) set_layout(in[i], Layout::kBlocked);
  set_layout(out[0], Layout::kBlocked);
  const ndt_node wanted = node.with(in, out);
  check(Node(wanted));
}

}  // namespace ndtrain::onednn
