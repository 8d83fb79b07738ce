// Cast: floats round to nearest even, floats to integers truncate (beyond 64 bits they saturate,
// NaN is 0), integers wrap, anything not 0 is true.
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

struct Bool {
  uint8_t byte;
};

template <typename To, typename W>
To convert(W x) {
  if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<W>) {
    if (!(x < W(0x1p63) && x >= W(-0x1p63))) {
      if (x != x) return 0;
      if (x < 0) return std::numeric_limits<To>::min();
      if (std::is_signed_v<To> || x >= W(0x1p64)) return std::numeric_limits<To>::max();
      return static_cast<To>(static_cast<uint64_t>(x));
    }
    if constexpr (sizeof(To) < 4) {
      if (x < W(0x1p31) && x >= W(-0x1p31)) return static_cast<To>(static_cast<int32_t>(x));
    }
    return static_cast<To>(static_cast<int64_t>(x));
  } else if constexpr (std::is_class_v<To> && !std::is_same_v<W, float>) {
    // To 16 bits by way of f32 rounds twice; a first step that rounds to odd makes that harmless.
    const double d = static_cast<double>(x);
    float f = static_cast<float>(d);
    if (std::isfinite(f) && static_cast<double>(f) != d) {
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      if (!(bits & 1)) bits += (std::abs(d) > std::abs(static_cast<double>(f))) ? 1 : -1;
      std::memcpy(&f, &bits, sizeof bits);
    }
    return To(f);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
std::unique_ptr<Kernel> cast_of(const Node& node) {
  const int64_t n = count(node.out());
  auto k = kernel([n](const void* const* in, void* const* out, void*) {
    const From* x = as<From>(in[0]);
    To* y = as<To>(out[0]);
    parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_same_v<From, Bool>) {
          y[i] = convert<To>(int64_t{x[i].byte != 0});
        } else {
          y[i] = convert<To>(widen(x[i]));
        }
      }
    });
  });
  k->in_place_inputs = sizeof(From) == sizeof(To) ? 1 : 0;
  return k;
}

// As for_number(), with bool.
template <typename F>
auto for_any(ndt_dtype t, F f) {
  if (t == NDT_BOOL) return f.template operator()<Bool>();
  return for_number(t, "Cast", std::move(f));
}

// Cast and CastLike: where to is in the output's type.
std::unique_ptr<Kernel> cast_kernel(const Node& node) {
  const ndt_dtype from = node.in(0).dtype, to = node.out().dtype;
  return for_any(from, [&]<typename From>() {
    return for_any(to, [&]<typename To>() { return cast_of<From, To>(node); });
  });
}

const Registered registered{
    {"Cast", cast_kernel},
    {"CastLike", cast_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
