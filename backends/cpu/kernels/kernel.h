// What the author of a kernel works with: Node (what prepare() was asked), Kernel (what it
// answers), parallel loops (backends/plugin/host.h), and dispatch over dtypes.
//
// A kernel is one factory `std::unique_ptr<Kernel> f(const Node&)`, registered by its file
// (table.h). It reads the node once, refuses what it cannot do by calling unsupported(), packs
// constants, and returns an immutable object whose run() neither allocates nor throws, may be
// called from several threads at once, and gives the same bytes for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/kernels/table.h"
#include "backends/plugin/host.h"
#include "backends/plugin/host_kernel.h"
#include "backends/plugin/node.h"

namespace ndtrain::cpu {

using namespace plugin;  // NOLINT(google-build-using-namespace): all of it, here

size_t bytes(const ndt_tensor_type& t);

// What prepare() was asked, with ports that lie row-major and contiguous, but for outputs with gaps
// where they are allowed: the constructor refuses anything else.
class Node : public plugin::Node {
 public:
  // `gaps`: strides[0] of an output may be larger than the other dims fill. `less_memory`: see
  // ndt_options.
  explicit Node(const ndt_node& node, bool gaps = false, bool less_memory = false);

  std::vector<int64_t> known_ints(int i) const;  // of a constant; unsupported() if it is not one
  std::vector<double> known_doubles(int i) const;
  bool less_memory() const { return less_memory_; }

 private:
  bool less_memory_;
};

template <typename T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <typename T>
T* as(void* p) {
  return static_cast<T*>(p);
}

// Elements one thread should get at least before a simple loop is worth sharing.
inline constexpr int64_t kGrain = 16384;

// 16-bit floats: stored as bits, computed with as float.
struct F16 {
  uint16_t bits;
  F16() = default;
  explicit F16(float x) {
    const _Float16 h = static_cast<_Float16>(x);
    std::memcpy(&bits, &h, sizeof bits);
  }
  operator float() const {
    _Float16 h;
    std::memcpy(&h, &bits, sizeof bits);
    return static_cast<float>(h);
  }
};

struct BF16 {
  uint16_t bits;
  BF16() = default;
  explicit BF16(float x) {
    uint32_t u;
    std::memcpy(&u, &x, sizeof u);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40 : (u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  operator float() const {
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
  }
};

// The type sums and functions of T are computed in.
template <typename T>
struct Wide {
  using type = int64_t;
};
template <>
struct Wide<float> {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};
template <>
struct Wide<F16> {
  using type = float;
};
template <>
struct Wide<BF16> {
  using type = float;
};
template <>
struct Wide<uint64_t> {
  using type = uint64_t;
};
template <typename T>
using wide_t = typename Wide<T>::type;

// Calls f.template operator()<T>() with the C++ type of `t`. `what` is for the refusal.
template <typename F>
auto for_float(ndt_dtype t, std::string_view what, F f) {
  switch (t) {
    case NDT_F32:
      return f.template operator()<float>();
    case NDT_F64:
      return f.template operator()<double>();
    case NDT_F16:
      return f.template operator()<F16>();
    case NDT_BF16:
      return f.template operator()<BF16>();
    default:
      unsupported(what, " has no kernel for dtype ", name_of(t));
  }
}

template <typename F>
auto for_int(ndt_dtype t, std::string_view what, F f) {
  switch (t) {
    case NDT_I8:
      return f.template operator()<int8_t>();
    case NDT_U8:
      return f.template operator()<uint8_t>();
    case NDT_I16:
      return f.template operator()<int16_t>();
    case NDT_U16:
      return f.template operator()<uint16_t>();
    case NDT_I32:
      return f.template operator()<int32_t>();
    case NDT_U32:
      return f.template operator()<uint32_t>();
    case NDT_I64:
      return f.template operator()<int64_t>();
    case NDT_U64:
      return f.template operator()<uint64_t>();
    default:
      unsupported(what, " has no kernel for dtype ", name_of(t));
  }
}

template <typename F>
auto for_number(ndt_dtype t, std::string_view what, F f) {
  switch (t) {
    case NDT_F32:
    case NDT_F64:
    case NDT_F16:
    case NDT_BF16:
      return for_float(t, what, std::move(f));
    default:
      return for_int(t, what, std::move(f));
  }
}

}  // namespace ndtrain::cpu
