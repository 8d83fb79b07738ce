// The bits of integers with broadcasting, and Mod. Narrow integers go by way of i64, whose lowest
// bits are theirs.
#include <cmath>

#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/by_way_of.h"

namespace ndtrain::cpu {
namespace {

void check_integers(const Node& node) {
  const ndt_dtype t = node.in(0).dtype;
  if (t == NDT_BOOL || is_half(t) || t == NDT_F32 || t == NDT_F64) {
    unsupported("takes integers, not ", name_of(t));
  }
}

// Of i64 and u64: what F makes of two numbers of the type.
template <auto F>
std::unique_ptr<Kernel> integers(const Node& node) {
  check_integers(node);
  switch (node.in(0).dtype) {
    case NDT_I64:
      return broadcast2<int64_t, int64_t>(node, F);
    case NDT_U64:
      return broadcast2<uint64_t, uint64_t>(node, F);
    default:
      return by_way_of_i64(node, integers<F>);
  }
}

std::unique_ptr<Kernel> not_kernel(const Node& node) {
  check_integers(node);
  return for_word(size_of(node.in(0).dtype),
                  [&]<typename W>() { return map1<W, W>(node, [](auto a) { return ~a; }); });
}

constexpr auto kLeft = [](auto a, auto by) {
  using W = decltype(a);
  return static_cast<uint64_t>(by) < 64 ? static_cast<W>(static_cast<uint64_t>(a) << by) : W{};
};

// Of a negative number the sign is left, of others nothing.
constexpr auto kRight = [](auto a, auto by) {
  using W = decltype(a);
  if (static_cast<uint64_t>(by) < 64) return static_cast<W>(a >> by);
  return static_cast<W>(std::is_signed_v<W> && a < 0 ? -1 : 0);
};

std::unique_ptr<Kernel> shift_kernel(const Node& node) {
  return node.s("direction") == "LEFT" ? integers<kLeft>(node) : integers<kRight>(node);
}

// With the divisor's sign; by 0 an integer gives 0.
constexpr auto kFloored = [](auto a, auto b) {
  using W = decltype(a);
  if constexpr (std::is_floating_point_v<W>) {
    const W rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else if constexpr (std::is_signed_v<W>) {
    if (b == 0 || b == -1) return W{};
    const W rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<W>(rest + b) : rest;
  } else {
    return b == 0 ? W{} : static_cast<W>(a % b);
  }
};

// With the dividend's sign.
constexpr auto kTruncated = [](auto a, auto b) {
  using W = decltype(a);
  if constexpr (std::is_floating_point_v<W>) {
    return std::fmod(a, b);
  } else {
    return b == 0 || (std::is_signed_v<W> && b == static_cast<W>(-1)) ? W{} : static_cast<W>(a % b);
  }
};

template <auto F>
std::unique_ptr<Kernel> numbers_modulo(const Node& node) {
  return for_wide_number(node, numbers_modulo<F>,
                         [&]<typename T>() { return broadcast2<T, T>(node, F); });
}

std::unique_ptr<Kernel> mod_kernel(const Node& node) {
  return node.i("fmod") != 0 ? numbers_modulo<kTruncated>(node) : numbers_modulo<kFloored>(node);
}

const Registered registered{
    {"BitwiseAnd", integers<[](auto a, auto b) { return a & b; }>},
    {"BitwiseOr", integers<[](auto a, auto b) { return a | b; }>},
    {"BitwiseXor", integers<[](auto a, auto b) { return a ^ b; }>},
    {"BitwiseNot", not_kernel},
    {"BitShift", shift_kernel},
    {"Mod", mod_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
