// LRN across channels of [N, C, plane] and its gradient: s = bias + alpha / size * sum of x^2 over
// the channels around; y = x s^-beta. One task per (image, channel); along the plane it vectorises.
#include <cmath>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/math.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kBlock = 256;  // positions of a plane whose sums are on the stack

struct Response {
  int64_t channels, plane, tasks, size;
  double share, beta, bias;

  explicit Response(const Node& node) : size(node.i("size")) {
    const ndt_tensor_type& x = node.in(0);
    if (x.rank < 2 || size < 1) invalid("needs [N, C, ...] and a size of at least 1");
    channels = x.dims[1];
    plane = count(x, 2, x.rank);
    tasks = x.dims[0] * channels;
    share = node.f("alpha") / static_cast<double>(size);
    beta = node.f("beta");
    bias = node.f("bias");
  }

  // f(task, first position, positions) over all planes.
  template <typename F>
  void for_each_block(F f) const {
    const int64_t work = plane * std::min(size, channels) * 4 + 1;
    parallel_for(tasks, std::max<int64_t>(1, kElementGrain / work),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t t = begin; t < end; ++t) {
                     for (int64_t i = 0; i < plane; i += kBlock)
                       f(t, i, std::min(kBlock, plane - i));
                   }
                 });
  }

  // sum[i] = sum of term(element) at position first + i over the channels `before` to `after` of
  // the task's.
  template <typename W, typename Term>
  void add_channels(int64_t task, int64_t before, int64_t after, int64_t first, int64_t n, W* sum,
                    Term term) const {
    const int64_t c = task % channels;
    const int64_t begin = before > c ? 0 : c - before;
    const int64_t end = after > channels - 1 - c ? channels - 1 : c + after;
    std::fill_n(sum, n, W{});
    for (int64_t j = begin; j <= end; ++j) {
      const int64_t at = (task - c + j) * plane + first;
      for (int64_t i = 0; i < n; ++i) sum[i] += term(at + i);
    }
  }

  int64_t before() const { return (size - 1) / 2; }
  int64_t after() const { return size - 1 - before(); }
};

template <typename T>
std::unique_ptr<Kernel> forward(const Node& node) {
  using W = wide_t<T>;
  return kernel([r = Response(node)](const void* const* in, void* const* out, void*) {
    const T* x = as<T>(in[0]);
    T* y = as<T>(out[0]);
    const W share = static_cast<W>(r.share), beta = static_cast<W>(r.beta),
            bias = static_cast<W>(r.bias);
    r.for_each_block([=](int64_t task, int64_t first, int64_t n) {
      W sum[kBlock];
      r.add_channels(task, r.before(), r.after(), first, n, sum,
                     [=](int64_t i) { return widen(x[i]) * widen(x[i]); });
      const T* from = x + task * r.plane + first;
      T* to = y + task * r.plane + first;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        to[i] =
            static_cast<T>(widen(from[i]) * math::exp(-beta * math::log(bias + share * sum[i])));
      }
    });
  });
}

// dx = dy s^-beta - 2 share beta x * sum of dy x s^(-beta - 1) over the channels that see it.
template <typename T>
std::unique_ptr<Kernel> backward(const Node& node) {
  using W = wide_t<T>;
  const int64_t count = cpu::count(node.out());
  auto k =
      kernel([r = Response(node), count](const void* const* in, void* const* out, void* workspace) {
        const T *dy = as<T>(in[0]), *x = as<T>(in[1]);
        T* dx = as<T>(out[0]);
        W *direct = as<W>(workspace), *shared = direct + count;
        const W share = static_cast<W>(r.share), beta = static_cast<W>(r.beta),
                bias = static_cast<W>(r.bias);
        r.for_each_block([=](int64_t task, int64_t first, int64_t n) {
          W sum[kBlock];
          r.add_channels(task, r.before(), r.after(), first, n, sum,
                         [=](int64_t i) { return widen(x[i]) * widen(x[i]); });
          const int64_t at = task * r.plane + first;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            const W s = bias + share * sum[i];
            direct[at + i] = widen(dy[at + i]) * math::exp(-beta * math::log(s));
            shared[at + i] = direct[at + i] * widen(x[at + i]) / s;
          }
        });
        r.for_each_block([=](int64_t task, int64_t first, int64_t n) {
          W sum[kBlock];
          r.add_channels(task, r.after(), r.before(), first, n, sum,
                         [=](int64_t i) { return shared[i]; });
          const int64_t at = task * r.plane + first;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            dx[at + i] =
                static_cast<T>(direct[at + i] - 2 * share * beta * widen(x[at + i]) * sum[i]);
          }
        });
      });
  k->workspace_bytes = static_cast<size_t>(2 * count) * sizeof(W);
  return k;
}

std::unique_ptr<Kernel> lrn_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return forward<T>(node); });
}

std::unique_ptr<Kernel> lrn_grad_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return backward<T>(node); });
}

const Registered registered{
    {"LRN", lrn_kernel},
    {"LRNGrad", lrn_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
