#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {
namespace {

template <typename T>
std::unique_ptr<Kernel> shrink_of(const Node& node) {
  using W = wide_t<T>;
  const W lambd = static_cast<W>(node.f("lambd")), bias = static_cast<W>(node.f("bias"));
  return map1<T, T>(
      node, [lambd, bias](W x) { return x < -lambd ? x + bias : (x > lambd ? x - bias : W(0)); });
}

std::unique_ptr<Kernel> shrink(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return shrink_of<T>(node); });
}

const Registered registered{{"Shrink", shrink}};

}  // namespace
}  // namespace ndtrain::cpu
