#include "framework/sparse/sync/whole_gradient.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "framework/core/finite.h"
#include "framework/runtime/backend.h"

namespace ndtrain {
namespace {

constexpr int64_t kGrain = 1 << 18;  // elements that a thread does at once

void add_part(float* __restrict to, const float* __restrict from, size_t n) {
  constexpr size_t kBlock = 1024;  // of so many, known here, vectors are made
  for (; n >= kBlock; n -= kBlock, to += kBlock, from += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) to[i] += from[i];
  }
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

bool are_finite(std::span<const float> values) {
  std::atomic<bool> all = true;
  shared_threads().parallel_for(std::ssize(values), kGrain, [&](int64_t begin, int64_t end) {
    const auto part = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    if (!all_finite(DType::kF32, std::as_bytes(part))) all = false;
  });
  return all;
}

void add_to(std::span<float> to, const float* from) {
  shared_threads().parallel_for(std::ssize(to), kGrain, [&](int64_t begin, int64_t end) {
    add_part(to.data() + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

void copy_to(std::span<float> to, const float* from) {
  shared_threads().parallel_for(std::ssize(to), kGrain, [&](int64_t begin, int64_t end) {
    std::copy(from + begin, from + end, to.data() + begin);
  });
}

}  // namespace ndtrain
