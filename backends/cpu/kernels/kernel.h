// What the author of a kernel works with: Node (what prepare() was asked), Kernel (what it
// answers), parallel loops, and dispatch over dtypes.
//
// A kernel is one factory `std::unique_ptr<Kernel> f(const Node&)`, registered by its file
// (table.h). It reads the node once, refuses what it cannot do by calling unsupported(), packs
// constants, and returns an immutable object whose run() neither allocates nor throws, may be
// called from several threads at once, and gives the same bytes for any number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/kernels/table.h"
#include "framework/runtime/backend_abi.h"

struct ndt_kernel {
  virtual ~ndt_kernel() = default;
  // Row-major tensors, 64-byte aligned workspace. An absent optional input and an input packed at
  // prepare() may be null.
  virtual void run(const void* const* in, void* const* out, void* workspace) const = 0;

  size_t workspace_bytes = 0;
  uint64_t packed_inputs = 0;  // see ndt_prepared
  uint64_t in_place_inputs = 0;
};

namespace ndtrain::cpu {

using Kernel = ndt_kernel;

// prepare() answers NDT_UNSUPPORTED with this text.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
[[noreturn]] void unsupported(const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  throw Unsupported(os.str());
}

// prepare() answers NDT_INVALID with this text: the node contradicts itself.
template <typename... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  throw std::invalid_argument(os.str());
}

std::string_view name_of(ndt_dtype t);  // "f32"
size_t size_of(ndt_dtype t);            // bytes; 0 for NDT_ABSENT
int64_t count(const ndt_tensor_type& t);
int64_t count(const ndt_tensor_type& t, int begin, int end);  // product of dims [begin, end)
size_t bytes(const ndt_tensor_type& t);
std::string describe(const ndt_tensor_type& t);  // "f32[2,3]"

// A view of the node given to prepare(); valid during the factory only. Every port is row-major and
// contiguous, but for outputs with gaps where they were allowed: anything else was refused before
// the factory is asked.
class Node {
 public:
  // `gaps`: strides[0] of an output may be larger than the other dims fill. `less_memory`: see
  // ndt_options.
  explicit Node(const ndt_node& node, bool gaps = false, bool less_memory = false);

  std::string_view op() const { return node_.op; }
  int inputs() const { return node_.n_inputs; }
  int outputs() const { return node_.n_outputs; }
  bool has(int i) const { return i < inputs() && node_.inputs[i].dtype != NDT_ABSENT; }
  bool wants(int i) const { return i < outputs() && node_.outputs[i].dtype != NDT_ABSENT; }
  const ndt_tensor_type& in(int i) const;  // throws for a port that is not there
  const ndt_tensor_type& out(int i = 0) const;

  // Attributes are complete inside a Graph; a getter without fallback throws when one is absent.
  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  int64_t i(std::string_view name) const;
  int64_t i(std::string_view name, int64_t fallback) const;
  double f(std::string_view name) const;
  double f(std::string_view name, double fallback) const;
  std::string_view s(std::string_view name) const;
  std::string_view s(std::string_view name, std::string_view fallback) const;
  std::span<const int64_t> ints(std::string_view name) const;  // empty when absent

  const void* constant(int i) const;             // null: input i changes from run to run
  uint64_t constant_id(int i) const;             // 0: has no identity
  std::vector<int64_t> known_ints(int i) const;  // of a constant; unsupported() if it is not one
  std::vector<double> known_doubles(int i) const;

  bool less_memory() const { return less_memory_; }
  const ndt_node& abi() const { return node_; }
  std::string describe() const;  // "Conv(f32[1,3,8,8], f32[4,3,3,3])"

 private:
  const ndt_attr* find(std::string_view name) const;
  const ndt_attr& get(std::string_view name) const;

  const ndt_node& node_;
  bool less_memory_;
};

// A kernel from a callable (in, out, workspace), for those that keep no state worth a class.
template <typename F>
std::unique_ptr<Kernel> kernel(F run) {
  struct Callable final : Kernel {
    explicit Callable(F f) : f_(std::move(f)) {}
    void run(const void* const* in, void* const* out, void* workspace) const override {
      f_(in, out, workspace);
    }
    F f_;
  };
  return std::make_unique<Callable>(std::move(run));
}

template <typename T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <typename T>
T* as(void* p) {
  return static_cast<T*>(p);
}

const ndt_host& host();
void set_host(const ndt_host& host);
int threads();  // what the host lends the kernel that is prepared, at least 1

// body(begin, end) over disjoint ranges of at most `grain` covering [0, n). The body must not
// throw.
template <typename F>
void parallel_for(int64_t n, int64_t grain, F&& body) {
  if (n <= 0) return;
  if (n <= grain) return body(int64_t{0}, n);
  using Body = std::remove_reference_t<F>;
  host().parallel_for(
      n, std::max<int64_t>(grain, 1),
      [](int64_t begin, int64_t end, void* arg) noexcept {
        (*static_cast<Body*>(arg))(begin, end);
      },
      const_cast<std::remove_const_t<Body>*>(&body));
}

// body(task, slot) for every task of [0, n), in any order, at most `slots` at once: no two that run
// at the same time have the same slot. So scratch memory is slots * (what one task needs).
template <typename F>
void parallel_tasks(int64_t n, int slots, F&& body) {
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(n, slots), 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        body(task, static_cast<int>(slot));
      }
    }
  });
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
