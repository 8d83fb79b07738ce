// FusedQLinearAveragePool, FusedQLinearMul by a factor for each map and FusedQLinearBatchNorm,
// channels-last: they keep the layout that convolutions of bytes give. Sums of bytes are exact in
// 32 bits, so that a photo has the same bytes in any batch.
#include "backends/onednn/byte_map_loops.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/pool_blocks.h"

namespace ndtrain::onednn {
namespace {

bool is_byte(ndt_dtype t) { return t == NDT_U8 || t == NDT_I8; }

ByteMapLoops loops() {
  if (block() == 16) return v4::byte_map_loops();
  return __builtin_cpu_supports("avx2") ? v3::byte_map_loops() : v2::byte_map_loops();
}

// Of input or output bytes whose zero point is input `zero`.
CountedBytes counted_bytes(const Node& node, ndt_dtype t, int zero) {
  if (!is_byte(t)) unsupported("it is not of bytes");
  const auto point = static_cast<int32_t>(node.known_single(zero, "zero point", 0));
  return t == NDT_I8 ? CountedBytes{0x80, point + 128} : CountedBytes{0, point};
}

void check_map(const ndt_tensor_type& t) {
  if (t.rank != 4 || count(t) == 0) unsupported("it is not of images");
  if (!lies(t, Layout::kLast) || has_gaps(t, Layout::kLast)) {
    unsupported("it does not lie channels-last without gaps");
  }
}

// Of images x and y.
void check_maps(const Node& node) {
  check_map(node.in(0));
  check_map(node.out());
}

class BytePool final : public Kernel {
 public:
  explicit BytePool(const Node& node)
      : window_(pool_window(node, node.in(0), node.out())),
        from_(counted_bytes(node, node.in(0).dtype, 2)),
        to_(counted_bytes(node, node.out().dtype, 4)),
        loops_(loops()),
        images_(node.in(0).dims[0]),
        channels_(node.in(0).dims[1]) {
    check_maps(node);
    constexpr int64_t kMostCells = int64_t{1} << 23;  // sums of bytes fit 32 bits
    if (window_.rows.kernel * window_.columns.kernel > kMostCells) {
      unsupported("windows of ", window_.rows.kernel, " by ", window_.columns.kernel);
    }
    check_windows(window_);
    factor_ = node.known_single(1, "scale of x", 1) / node.known_single(3, "scale of y", 1);
  }

  void run(const void* const* in, void* const* out, void*) const override {
    const int64_t x_image = window_.rows.in * window_.columns.in * channels_,
                  y_row = window_.columns.out * channels_, rows = window_.rows.out;
    parallel_for(images_ * rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        loops_.average_row(window_, r % rows,
                           static_cast<const uint8_t*>(in[0]) + r / rows * x_image, from_,
                           channels_, factor_, static_cast<uint8_t*>(out[0]) + r * y_row, to_);
      }
    });
  }

 private:
  PoolWindow window_;
  CountedBytes from_, to_;
  ByteMapLoops loops_;
  int64_t images_, channels_;
  float factor_ = 1;
};

class ByteScale final : public Kernel {
 public:
  explicit ByteScale(const Node& node)
      : from_(counted_bytes(node, node.in(0).dtype, 2)),
        by_(counted_bytes(node, node.in(3).dtype, 5)),
        to_(counted_bytes(node, node.out().dtype, 7)),
        loops_(loops()),
        images_(node.in(0).dims[0]),
        channels_(node.in(0).dims[1]) {
    check_maps(node);
    const ndt_tensor_type &x = node.in(0), &by = node.in(3);
    if (node.constant(0) || node.constant(3)) unsupported("it has a constant operand");
    if (by.rank != 4 || by.dims[0] != x.dims[0] || by.dims[1] != x.dims[1] ||
        by.dims[2] * by.dims[3] != 1) {
      unsupported("its operands are ", describe(x), " and ", describe(by),
                  ", not maps and a factor for each");
    }
    if (!lies(by, Layout::kPlain) && !lies(by, Layout::kLast)) unsupported("its factors have gaps");
    pixels_ = x.dims[2] * x.dims[3];
    factor_ = node.known_single(1, "scale of a", 1) * node.known_single(4, "scale of b", 1) /
              node.known_single(6, "scale of y", 1);
    parts_ = std::min(pixels_, (threads() + images_ - 1) / images_);
    slots_ = static_cast<int>(std::min<int64_t>(threads(), images_ * parts_));
    workspace_bytes = static_cast<size_t>(slots_) * slot_bytes();
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    parallel_tasks(images_ * parts_, slots_, [&](int64_t task, int slot) {
      const int64_t image = task / parts_, part = task % parts_;
      auto* by = reinterpret_cast<float*>(static_cast<std::byte*>(workspace) +
                                          static_cast<size_t>(slot) * slot_bytes());
      const auto* factors = static_cast<const uint8_t*>(in[3]) + image * channels_;
      for (int64_t c = 0; c < channels_; ++c) {
        by[c] = static_cast<float>((factors[c] ^ by_.flip) - by_.zero);
      }
      const int64_t first = part * pixels_ / parts_, last = (part + 1) * pixels_ / parts_;
      const int64_t at = (image * pixels_ + first) * channels_;
      loops_.scale_pixels(static_cast<const uint8_t*>(in[0]) + at, from_, by, factor_, last - first,
                          channels_, static_cast<uint8_t*>(out[0]) + at, to_);
    });
  }

 private:
  size_t slot_bytes() const { return whole_lines(static_cast<size_t>(channels_) * sizeof(float)); }

  CountedBytes from_, by_, to_;
  ByteMapLoops loops_;
  int64_t images_, channels_, pixels_ = 0, parts_ = 1;
  int slots_ = 1;
  float factor_ = 1;
};

class ByteBatchNorm final : public Kernel {
 public:
  enum Port { kFactor, kOffset, kYZero, kMaps };

  explicit ByteBatchNorm(const Node& node)
      : to_(counted_bytes(node, node.out().dtype, kYZero)), loops_(loops()) {
    check_map(node.out());
    pixels_ = node.out().dims[0] * node.out().dims[2] * node.out().dims[3];
    channels_ = node.out().dims[1];
    for (int k = kMaps; k < node.inputs(); ++k) {
      const ndt_tensor_type& x = node.in(k);
      if (node.constant(k)) unsupported("maps ", k - kMaps, " are constant");
      check_map(x);
      if (!is_byte(x.dtype)) unsupported("it is not of bytes");
      const CountedBytes as_stored = x.dtype == NDT_I8 ? CountedBytes{0x80, 128} : CountedBytes{};
      maps_.push_back({as_stored, x.dims[1]});
    }
  }

  void run(const void* const* in, void* const* out, void*) const override {
    constexpr int64_t kTogether = 16;  // pixels: their maps stay in the first cache
    const auto* factors = static_cast<const float*>(in[kFactor]);
    const auto* offsets = static_cast<const float*>(in[kOffset]);
    parallel_for((pixels_ + kTogether - 1) / kTogether, 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * kTogether, count = std::min(kTogether, pixels_ - first);
        int64_t c = 0;
        for (size_t k = 0; k < maps_.size(); c += maps_[k].channels, ++k) {
          loops_.shift_pixels(
              static_cast<const uint8_t*>(in[kMaps + k]) + first * maps_[k].channels, maps_[k].from,
              factors + c, offsets + c, count, maps_[k].channels,
              static_cast<uint8_t*>(out[0]) + first * channels_ + c, channels_, to_);
        }
      }
    });
  }

 private:
  struct Map {
    CountedBytes from;  // its zero point is in the offsets
    int64_t channels;
  };

  CountedBytes to_;
  ByteMapLoops loops_;
  std::vector<Map> maps_;
  int64_t pixels_ = 0, channels_ = 0;
};

// Inputs `first` to `last` are the maps.
template <typename K>
void prefer_last(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out, int first = 0,
                 int last = 0) {
  for (int k = first; k <= last; ++k) {
    if (in[k].rank != 4) unsupported("it is not of images");
    set_layout(in[k], Layout::kLast);
  }
  set_layout(out[0], Layout::kLast);
  const ndt_node wanted = node.with(in, out);
  K{Node(wanted)};
}

}  // namespace

std::unique_ptr<Kernel> prepare_byte_pool(const ndt_device&, const Node& node) {
  return std::make_unique<BytePool>(node);
}

void prefer_byte_pool(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  prefer_last<BytePool>(node, in, out);
}

std::unique_ptr<Kernel> prepare_byte_scale(const ndt_device&, const Node& node) {
  return std::make_unique<ByteScale>(node);
}

void prefer_byte_scale(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  prefer_last<ByteScale>(node, in, out);
}

std::unique_ptr<Kernel> prepare_byte_batch_norm(const ndt_device&, const Node& node) {
  return std::make_unique<ByteBatchNorm>(node);
}

void prefer_byte_batch_norm(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  prefer_last<ByteBatchNorm>(node, in, out, ByteBatchNorm::kMaps, node.inputs() - 1);
}

}  // namespace ndtrain::onednn
