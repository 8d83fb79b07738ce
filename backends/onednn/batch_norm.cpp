// BatchNormalization that trains and its gradient, f32 and bf16, and with running statistics in
// bf16 (f32: channel_affine.cpp), blocked: there to keep the layout that convolutions give. Bound
// by memory: loops of our own, a block of channels a task. Scale, bias and statistics are f32.
#include <cmath>

#include "backends/onednn/batch_norm_loops.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

const BatchNormLoops* loops_for(ndt_dtype t) {
  if (block() == 16) return v4::batch_norm_loops(t);
  return __builtin_cpu_supports("avx2") ? v3::batch_norm_loops(t) : v2::batch_norm_loops(t);
}

// The blocks of x [N, C/b, plane, b] without gaps, and values of channels in their lanes.
class Blocks {
 public:
  explicit Blocks(const ndt_tensor_type& x)
      : channels_(x.dims[1]),
        bytes_(x.dims[2] * x.dims[3] * block() * size_of(x.dtype)),
        at_{x.dims[0], x.dims[2] * x.dims[3], count() * bytes_} {}

  int64_t count() const { return (channels_ + block() - 1) / block(); }
  int lanes(int64_t b) const {
    return static_cast<int>(std::min<int64_t>(block(), channels_ - b * block()));
  }
  float per_channel() const { return static_cast<float>(at_.images * at_.plane); }
  const BlockPlanes& planes() const { return at_; }
  const void* in(const void* x, int64_t b) const {
    return static_cast<const char*>(x) + b * bytes_;
  }
  void* in(void* x, int64_t b) const { return static_cast<char*>(x) + b * bytes_; }

  // Of [C]: those of a block; zero in the padding lanes.
  ChannelLanes of(const void* values, int64_t b) const {
    ChannelLanes v{};
    std::copy_n(static_cast<const float*>(values) + b * block(), lanes(b), v.of);
    return v;
  }
  void to(void* values, int64_t b, const ChannelLanes& v) const {
    std::copy_n(v.of, lanes(b), static_cast<float*>(values) + b * block());
  }

 private:
  int64_t channels_, bytes_;  // bytes: of a block in one image
  BlockPlanes at_;
};

class BatchNorm final : public Kernel {
 public:
  explicit BatchNorm(const Node& node)
      : at_(node.in(0)),
        loops_(*loops_for(node.in(0).dtype)),
        epsilon_(static_cast<float>(node.f("epsilon"))),
        momentum_(static_cast<float>(node.f("momentum"))),
        running_{node.has_output(1), node.has_output(2)} {
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    parallel_tasks(at_.count(), threads(), [&](int64_t b, int) {
      const void* const x = at_.in(in[0], b);
      BatchMoments m;
      loops_.moments(at_.planes(), x, &m);
      ChannelLanes factor = at_.of(in[1], b);
      for (int l = 0; l < at_.lanes(b); ++l) factor.of[l] /= std::sqrt(m.var.of[l] + epsilon_);
      loops_.scale(at_.planes(), x, at_.in(out[0], b), m.mean, factor, at_.of(in[2], b));
      if (running_[0]) keep(in[3], m.mean, out[1], b);
      if (running_[1]) keep(in[4], m.var, out[2], b);
    });
  }

 private:
  void keep(const void* old, const ChannelLanes& batch, void* next, int64_t b) const {
    ChannelLanes kept = at_.of(old, b);
    for (int l = 0; l < at_.lanes(b); ++l) {
      kept.of[l] = momentum_ * kept.of[l] + (1 - momentum_) * batch.of[l];
    }
    at_.to(next, b, kept);
  }

  Blocks at_;
  const BatchNormLoops& loops_;
  float epsilon_, momentum_;
  bool running_[2];
};

// With running statistics.
class ScaledChannels final : public Kernel {
 public:
  explicit ScaledChannels(const Node& node)
      : at_(node.in(0)),
        loops_(*loops_for(node.in(0).dtype)),
        epsilon_(static_cast<float>(node.f("epsilon"))) {
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    parallel_tasks(at_.count(), threads(), [&](int64_t b, int) {
      ChannelLanes factor = at_.of(in[1], b);
      const ChannelLanes var = at_.of(in[4], b);
      for (int l = 0; l < at_.lanes(b); ++l) factor.of[l] /= std::sqrt(var.of[l] + epsilon_);
      loops_.scale(at_.planes(), at_.in(in[0], b), at_.in(out[0], b), at_.of(in[3], b), factor,
                   at_.of(in[2], b));
    });
  }

 private:
  Blocks at_;
  const BatchNormLoops& loops_;
  float epsilon_;
};

// With r = 1 / sqrt(var + epsilon), z = (x - mean) * r: dbias = sum dy, dscale = sum dy * z,
// dx = scale * r * (dy - dbias / n - z * dscale / n).
class BatchNormGrad final : public Kernel {
 public:
  explicit BatchNormGrad(const Node& node)
      : at_(node.in(1)),
        loops_(*loops_for(node.in(1).dtype)),
        epsilon_(static_cast<float>(node.f("epsilon"))) {
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void*) const override {
    parallel_tasks(at_.count(), threads(), [&](int64_t b, int) {
      const void *const dy = at_.in(in[0], b), *const x = at_.in(in[1], b);
      BatchSlopes found;
      loops_.slopes(at_.planes(), dy, x, &found);
      ChannelLanes factor = at_.of(in[2], b), dscale{}, dbias{};
      for (int l = 0; l < at_.lanes(b); ++l) {
        const float r = 1 / std::sqrt(found.x.var.of[l] + epsilon_);
        factor.of[l] *= r;
        dscale.of[l] = r * found.slope.of[l] * at_.per_channel();
        dbias.of[l] = found.shift.of[l] * at_.per_channel();
        found.slope.of[l] *= r * r;
      }
      loops_.back(at_.planes(), dy, x, at_.in(out[0], b), found, factor);
      at_.to(out[1], b, dscale);
      at_.to(out[2], b, dbias);
    });
  }

 private:
  Blocks at_;
  const BatchNormLoops& loops_;
  float epsilon_;
};

bool trains(const Node& node) {
  return node.op() == "BatchNormalizationGrad" || node.i("training_mode") != 0;
}

void check(const Node& node) {
  const bool back = node.op() == "BatchNormalizationGrad";
  const int images = back ? 2 : 1;
  trains(node) ? check_trained_float(node) : check_float(node);
  for (int i = images; i < node.inputs(); ++i) {
    if (node.in(i).dtype != NDT_F32) unsupported("its scale or statistics are not f32");
  }
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (count(x) == 0) unsupported("it is empty");
  for (const ndt_tensor_type* t : {&x, &y, back ? &node.in(1) : &x}) {
    if (!lies(*t, Layout::kBlocked) || has_gaps(*t, Layout::kBlocked)) {
      unsupported("it is not blocked without gaps");
    }
  }
}

template <typename K>
std::unique_ptr<Kernel> kernel_of(const Node& node) {
  check(node);
  return std::make_unique<K>(node);
}

}  // namespace

std::unique_ptr<Kernel> prepare_batch_norm(const ndt_device& device, const Node& node) {
  if (trains(node)) return kernel_of<BatchNorm>(node);
  if (node.in(0).dtype == NDT_BF16) return kernel_of<ScaledChannels>(node);
  return prepare_channel_affine(device, node);
}

std::unique_ptr<Kernel> prepare_batch_norm_grad(const ndt_device&, const Node& node) {
  return kernel_of<BatchNormGrad>(node);
}

void prefer_batch_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const bool back = node.op() == "BatchNormalizationGrad";
  if (!trains(node) && node.in(0).dtype != NDT_BF16) return prefer_channel_affine(node, in, out);
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
