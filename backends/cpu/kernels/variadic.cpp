// Sum, Mean, Min and Max of any number of tensors with broadcasting: block by block, so that the
// output is written once, and rounded once.
#include "backends/cpu/kernels/broadcast.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kBlock = 1024;  // elements added up on the stack

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
// a stays if it is NaN.
constexpr auto kMax = [](auto a, auto b) { return (a >= b) | (a != a) ? a : b; };
constexpr auto kMin = [](auto a, auto b) { return (a <= b) | (a != a) ? a : b; };

template <typename T, typename W, typename F>
void fold_into(W* sum, const T* x, bool advances, int64_t n, F f) {
  if (advances) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sum[i] = f(sum[i], widen(x[i]));
  } else {
    const W x0 = widen(*x);
    for (int64_t i = 0; i < n; ++i) sum[i] = f(sum[i], x0);
  }
}

template <typename T, auto F>
std::unique_ptr<Kernel> fold(const Node& node) {
  std::vector<ndt_tensor_type> types;
  for (int i = 0; i < node.inputs(); ++i) {
    types.push_back(node.in(i));
    if (types[i].dtype != types[0].dtype) invalid("inputs of two dtypes");
  }
  const BroadcastRows rows(node.out(), types);
  const bool mean = node.op() == "Mean";
  auto k = kernel([rows, mean](const void* const* in, void* const* out, void*) {
    using W = wide_t<T>;
    T* y = as<T>(out[0]);
    const W divisor = static_cast<W>(mean ? rows.inputs() : 1);
    const auto block = [&](int64_t to, const int64_t* from, int64_t skip, int64_t n) {
      W sum[kBlock];
      const bool first = rows.advances(0);
      const T* x = as<T>(in[0]) + from[0] + (first ? skip : 0);
      for (int64_t i = 0; i < n; ++i) sum[i] = widen(x[first ? i : 0]);
      for (int p = 1; p < rows.inputs(); ++p) {
        const bool advances = rows.advances(p);
        fold_into(sum, as<T>(in[p]) + from[p] + (advances ? skip : 0), advances, n, F);
      }
      if (mean) {
        for (int64_t i = 0; i < n; ++i) sum[i] /= divisor;
      }
      for (int64_t i = 0; i < n; ++i) y[to + i] = static_cast<T>(sum[i]);
    };
    parallel_for(rows.count(), kElementGrain, [&](int64_t begin, int64_t end) {
      rows.for_each_row(begin, end, [&](int64_t to, const int64_t* from, int64_t n) {
        for (int64_t skip = 0; skip < n; skip += kBlock) {
          block(to + skip, from, skip, std::min(kBlock, n - skip));
        }
      });
    });
  });
  k->in_place_inputs = rows.whole_inputs();
  return k;
}

std::unique_ptr<Kernel> variadic_kernel(const Node& node) {
  const ndt_dtype t = node.in(0).dtype;
  const std::string_view op = node.op();
  if (op == "Max") return for_number(t, op, [&]<typename T>() { return fold<T, kMax>(node); });
  if (op == "Min") return for_number(t, op, [&]<typename T>() { return fold<T, kMin>(node); });
  return for_float(t, op, [&]<typename T>() { return fold<T, kAdd>(node); });
}

const Registered registered{
    {"Sum", variadic_kernel},
    {"Mean", variadic_kernel},
    {"Max", variadic_kernel},
    {"Min", variadic_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
