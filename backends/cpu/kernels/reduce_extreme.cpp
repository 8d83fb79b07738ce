// The largest and the smallest element.
#include "backends/cpu/kernels/reduction.h"

namespace ndtrain::cpu {
namespace {

constexpr auto kMin = [](auto a, auto b) { return (a <= b) | (a != a) ? a : b; };

// An empty one is the type's own limit, so narrow integers go no wider; of bools, which are 0 and
// 1, a minimum is 1.
template <Start S, auto Fold>
std::unique_ptr<Kernel> extreme(const Node& node) {
  if (node.in(0).dtype == NDT_BOOL) {
    return reduction<uint8_t, S, kSame, Fold, [](auto y, int64_t) { return y != 0; }>(node);
  }
  return for_number(node.in(0).dtype, node.op(),
                    [&]<typename T>() { return reduction<T, S, kSame, Fold, kPlain>(node); });
}

const Registered registered{
    {"ReduceMax", extreme<Start::kLowest, kMax>},
    {"ReduceMin", extreme<Start::kHighest, kMin>},
};

}  // namespace
}  // namespace ndtrain::cpu
