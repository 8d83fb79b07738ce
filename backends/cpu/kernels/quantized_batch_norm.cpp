// FusedQLinearBatchNorm: maps of bytes joined by their channels, each channel scaled and rounded to
// bytes at once. No product is one with its sum (CMakeLists.txt), so that every build gives the
// same bytes.
#include "backends/cpu/kernels/quantize.h"

namespace ndtrain::cpu {
namespace {

enum Port { kFactor, kOffset, kYZero, kMaps };

template <typename X, typename Y>
void scale_plane(const void* x, int64_t plane, int64_t cells, float factor, float offset,
                 int32_t y_zero, Y* y) {
  const X* from = as<X>(x) + plane * cells;
  for (int64_t i = 0; i < cells; ++i) {
    y[i] = quantized<Y>(static_cast<float>(from[i]) * factor + offset, y_zero);
  }
}

// Channel `channel` of maps `map`.
struct Place {
  int map;
  int64_t channel;
};

struct JoinedMaps {
  std::vector<Place> places;      // of each channel of y
  std::vector<int64_t> channels;  // of each of the maps
  std::vector<ndt_dtype> dtypes;
  int64_t images = 0, cells = 0;
  int32_t y_zero = 0;

  explicit JoinedMaps(const Node& node) : images(node.out().dims[0]), y_zero(known_zero(node)) {
    for (int k = kMaps; k < node.inputs(); ++k) {
      const ndt_tensor_type& x = node.in(k);
      channels.push_back(x.dims[1]);
      dtypes.push_back(x.dtype);
      for (int64_t c = 0; c < x.dims[1]; ++c) places.push_back({k - kMaps, c});
    }
    const int64_t planes = images * static_cast<int64_t>(places.size());
    cells = planes == 0 ? 0 : count(node.out()) / planes;
  }

  template <typename Y>
  void run(const void* const* in, Y* y) const {
    const auto all = static_cast<int64_t>(places.size());
    parallel_for(images * all, kGrain / (cells + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t image = p / all, c = p % all;
        const auto [map, channel] = places[static_cast<size_t>(c)];
        const int64_t plane = image * channels[static_cast<size_t>(map)] + channel;
        for_byte(dtypes[static_cast<size_t>(map)], [&]<typename X>() {
          scale_plane<X>(in[kMaps + map], plane, cells, as<float>(in[kFactor])[c],
                         as<float>(in[kOffset])[c], y_zero, y + p * cells);
        });
      }
    });
  }

 private:
  static int32_t known_zero(const Node& node) {
    return static_cast<int32_t>(node.known_single(kYZero, "zero point", 0));
  }
};

std::unique_ptr<Kernel> quantized_batch_norm_kernel(const Node& node) {
  return for_byte(node.out().dtype, [&]<typename Y>() {
    return kernel([maps = JoinedMaps(node)](const void* const* in, void* const* out, void*) {
      maps.run(in, as<Y>(out[0]));
    });
  });
}

const Registered registered{{"FusedQLinearBatchNorm", quantized_batch_norm_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
