// How updates that scatter to one place add up (ScatterElements, ScatterND).
#pragma once

#include <memory>
#include <string_view>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/table.h"

namespace ndtrain::cpu {

// What `kernel_of` makes of T f(T, T), by the attribute `reduction` but "none".
template <typename T, typename F>
std::unique_ptr<Kernel> reducing(std::string_view reduction, F kernel_of) {
  const auto by = [&](auto f) {
    return kernel_of([f](T a, T b) { return static_cast<T>(f(widen(a), widen(b))); });
  };
  if (reduction == "add") return by(kWrapping<[](auto a, auto b) { return a + b; }>);
  if (reduction == "mul") return by(kWrapping<[](auto a, auto b) { return a * b; }>);
  if (reduction == "min") return by([](auto a, auto b) { return b < a ? b : a; });
  if (reduction == "max") return by([](auto a, auto b) { return a < b ? b : a; });
  unsupported("reduction ", reduction);
}

}  // namespace ndtrain::cpu
