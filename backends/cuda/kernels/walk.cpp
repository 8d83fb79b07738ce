#include "backends/cuda/kernels/walk.h"

#include <algorithm>

#include "backends/cuda/kernel.h"

namespace ndtrain::cuda {
namespace {

bool merges(const Steps& outer, const Steps& inner) {
  if (outer.out != inner.out * inner.n) return false;
  for (int k = 0; k < kMostInputs; ++k) {
    if (outer.in[k] != inner.in[k] * inner.n) return false;
  }
  return true;
}

void check_steps(const ndt_tensor_type& t) {
  if (t.channel_block > 1) unsupported(describe(t), " is laid out in blocks of channels");
}

}  // namespace

Divisor::Divisor(int64_t by) : n(by) {
  if (by < 1 || by >> 31) return;
  while (shift < 31 && (int64_t{1} << shift) < by) ++shift;
  const uint64_t rest = (uint64_t{1} << shift) - static_cast<uint64_t>(by);
  multiplier = static_cast<uint32_t>((rest << 32) / static_cast<uint64_t>(by) + 1);
}

bool Walk::whole(int k) const {
  for (int d = 0; d < rank; ++d) {
    if (dims[d].extent.n > 1 && dims[d].in[k] != dims[d].out) return false;
  }
  return in_start[k] == out_start;
}

Walk walk(std::vector<Steps> dims) {
  Walk w;
  for (const Steps& s : dims) w.count *= s.n;
  std::erase_if(dims, [](const Steps& s) { return s.n == 1; });
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Steps& a, const Steps& b) { return a.out > b.out; });
  std::vector<Steps> kept;
  for (const Steps& s : dims) {
    if (!kept.empty() && merges(kept.back(), s)) {
      const int64_t n = kept.back().n * s.n;
      kept.back() = s;
      kept.back().n = n;
    } else {
      kept.push_back(s);
    }
  }
  if (kept.empty()) kept.push_back({1, 1, {1, 1, 1, 1}});
  if (kept.size() > kMostDims) unsupported("it walks ", kept.size(), " dims at once");
  w.rank = static_cast<int>(kept.size());
  for (int d = 0; d < w.rank; ++d) {
    const Steps& s = kept[static_cast<size_t>(d)];
    w.dims[d].extent = Divisor(s.n);
    w.dims[d].out = s.out;
    std::copy_n(s.in, kMostInputs, w.dims[d].in);
  }
  return w;
}

std::vector<int64_t> broadcast_steps(const ndt_tensor_type& t, int rank) {
  check_steps(t);
  if (t.rank > rank) invalid(describe(t), " has more dims than what it broadcasts to");
  std::vector<int64_t> steps(static_cast<size_t>(rank), 0);
  for (int d = 0; d < t.rank; ++d) {
    if (t.dims[d] != 1) steps[static_cast<size_t>(rank - t.rank + d)] = t.strides[d];
  }
  return steps;
}

Walk walk(const ndt_tensor_type& out, const std::vector<ndt_tensor_type>& in) {
  check_steps(out);
  if (in.size() > kMostInputs) unsupported(in.size(), " inputs at once");
  std::vector<Steps> dims;
  for (int d = 0; d < out.rank; ++d) dims.push_back({out.dims[d], out.strides[d], {}});
  for (size_t k = 0; k < in.size(); ++k) {
    const std::vector<int64_t> steps = broadcast_steps(in[k], out.rank);
    for (int d = 0; d < in[k].rank; ++d) {
      const int64_t extent = in[k].dims[d];
      if (extent != 1 && extent != out.dims[out.rank - in[k].rank + d]) {
        invalid(describe(in[k]), " does not broadcast to ", describe(out));
      }
    }
    for (size_t d = 0; d < dims.size(); ++d) dims[d].in[k] = steps[d];
  }
  return walk(std::move(dims));
}

Walk rest_of(const Walk& walk, int64_t done) {
  Walk rest = walk;
  rest.count -= done;
  rest.dims[0].extent = Divisor(rest.count);
  rest.out_start += done * walk.dims[0].out;
  for (int k = 0; k < kMostInputs; ++k) rest.in_start[k] += done * walk.dims[0].in[k];
  return rest;
}

bool in_vectors(Walk& walk, int inputs, int size, unsigned& single) {
  Walk::Dim& inner = walk.dims[walk.rank - 1];
  const auto starts_at_vector = [&](int64_t step) { return step % size == 0; };
  if (inner.out != 1 || (walk.rank > 1 && inner.extent.n % size != 0)) return false;
  if (!starts_at_vector(walk.out_start)) return false;
  single = 0;
  for (int k = 0; k < inputs; ++k) {
    if (inner.in[k] == 0) single |= 1u << k;
    if (inner.in[k] != 0 && (inner.in[k] != 1 || !starts_at_vector(walk.in_start[k]))) return false;
  }
  for (int d = 0; d + 1 < walk.rank; ++d) {
    if (!starts_at_vector(walk.dims[d].out)) return false;
    for (int k = 0; k < inputs; ++k) {
      if (!(single >> k & 1) && !starts_at_vector(walk.dims[d].in[k])) return false;
    }
  }
  inner.extent = Divisor(std::max<int64_t>(inner.extent.n / size, 1));
  inner.out = size;
  for (int k = 0; k < inputs; ++k) inner.in[k] *= size;
  walk.count /= size;
  return walk.count > 0;
}

}  // namespace ndtrain::cuda
