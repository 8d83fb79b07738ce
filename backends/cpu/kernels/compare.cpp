// Comparisons, logic, and the choice made by them.
#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/by_way_of.h"

namespace ndtrain::cpu {
namespace {

template <auto F>
std::unique_ptr<Kernel> compare(const Node& node) {
  if (node.in(0).dtype == NDT_BOOL) return broadcast2<uint8_t, uint8_t>(node, F);
  return for_wide_number(node, compare<F>,
                         [&]<typename T>() { return broadcast2<T, uint8_t>(node, F); });
}

template <auto F>
std::unique_ptr<Kernel> logic(const Node& node) {
  if (node.in(0).dtype != NDT_BOOL) unsupported("takes bool, not ", name_of(node.in(0).dtype));
  return broadcast2<uint8_t, uint8_t>(node, F);
}

// Word: any type as wide as the elements; only bits move.
template <typename Word>
std::unique_ptr<Kernel> where(const Node& node) {
  const ndt_tensor_type types[] = {node.in(0), node.in(1), node.in(2)};
  const BroadcastRows rows(node.out(), types);
  auto k = kernel([rows](const void* const* in, void* const* out, void*) {
    const uint8_t* c = as<uint8_t>(in[0]);
    const Word *x = as<Word>(in[1]), *y = as<Word>(in[2]);
    Word* z = as<Word>(out[0]);
    const int64_t dc = rows.advances(0), dx = rows.advances(1), dy = rows.advances(2);
    parallel_for(rows.count(), kElementGrain, [&](int64_t begin, int64_t end) {
      rows.for_each_row(begin, end, [=](int64_t to, const int64_t* from, int64_t n) {
        const uint8_t* p = c + from[0];
        const Word *a = x + from[1], *b = y + from[2];
        Word* r = z + to;
        if (dc && dx && dy) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) r[i] = p[i] ? a[i] : b[i];
        } else if (dc && dx) {
          const Word other = *b;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) r[i] = p[i] ? a[i] : other;
        } else {
          for (int64_t i = 0; i < n; ++i) r[i] = p[i * dc] ? a[i * dx] : b[i * dy];
        }
      });
    });
  });
  k->in_place_inputs = rows.whole_inputs() & (sizeof(Word) == 1 ? 0b111 : 0b110);
  return k;
}

std::unique_ptr<Kernel> where_kernel(const Node& node) {
  if (node.in(0).dtype != NDT_BOOL) invalid("the condition is ", name_of(node.in(0).dtype));
  if (node.in(1).dtype != node.in(2).dtype) invalid("the choices have two dtypes");
  return for_word(size_of(node.out().dtype), [&]<typename W>() { return where<W>(node); });
}

const Registered registered{
    {"Equal", compare<[](auto a, auto b) { return a == b; }>},
    {"Less", compare<[](auto a, auto b) { return a < b; }>},
    {"LessOrEqual", compare<[](auto a, auto b) { return a <= b; }>},
    {"Greater", compare<[](auto a, auto b) { return (a > b); }>},
    {"GreaterOrEqual", compare<[](auto a, auto b) { return (a >= b); }>},
    {"And", logic<[](auto a, auto b) { return (a != 0) & (b != 0); }>},
    {"Or", logic<[](auto a, auto b) { return (a != 0) | (b != 0); }>},
    {"Xor", logic<[](auto a, auto b) { return (a != 0) != (b != 0); }>},
    {"Where", where_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
