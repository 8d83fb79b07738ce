#include "framework/parallel/buckets.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

int64_t bytes_of(const CostProfile::Layer& layer) {
  return layer.elements * CostProfile::kElementBytes;
}

void check_positive(const char* what, double value) {
  if (!(value > 0)) throw Error("buckets: ", what, " is ", value, ", not above 0");
}

}  // namespace

Buckets cut_buckets(const CostProfile& costs, const std::vector<bool>& begins) {
  Buckets buckets;
  const std::vector<ParameterRange> ranges = layer_ranges(costs);
  for (size_t l = 0; l < ranges.size(); ++l) {
    if (l == 0 || begins[l]) {
      buckets.push_back(ranges[l]);
    } else {
      buckets.back().begin = ranges[l].begin;
    }
  }
  return buckets;
}

Buckets layer_buckets(const CostProfile& costs, int layers) {
  check_positive("the number of layers", layers);
  std::vector<bool> begins(costs.layers.size());
  for (size_t l = 0; l < begins.size(); ++l) begins[l] = l % static_cast<size_t>(layers) == 0;
  return cut_buckets(costs, begins);
}

Buckets front_buckets(const CostProfile& costs, int64_t bytes) {
  check_positive("bytes", static_cast<double>(bytes));
  std::vector<bool> begins(costs.layers.size());
  int64_t taken = 0;
  for (size_t l = 0; l < begins.size(); ++l) {
    const int64_t more = bytes_of(costs.layers[l]);
    begins[l] = taken > 0 && taken + more >= bytes;
    taken = begins[l] ? more : taken + more;
  }
  return cut_buckets(costs, begins);
}

Buckets back_buckets(const CostProfile& costs, int64_t first_bytes, int64_t bytes) {
  check_positive("first bytes", static_cast<double>(first_bytes));
  check_positive("bytes", static_cast<double>(bytes));
  std::vector<bool> begins(costs.layers.size());
  int64_t taken = 0, enough = first_bytes;
  for (size_t l = begins.size(); l-- > 0;) {
    taken += bytes_of(costs.layers[l]);
    if (taken < enough) continue;
    begins[l] = true;
    taken = 0;
    enough = bytes;
  }
  return cut_buckets(costs, begins);
}

Buckets waiting_buckets(const CostProfile& costs, double wait_s) {
  check_positive("the time to wait", wait_s);
  std::vector<bool> begins(costs.layers.size());
  double waited = 0, cut_at = wait_s;
  for (size_t l = 1; l < begins.size(); ++l) {
    waited += costs.layers[l - 1].backward_s;
    begins[l] = waited > cut_at;
    if (begins[l]) cut_at += wait_s;
  }
  return cut_buckets(costs, begins);
}

Buckets pieces(const CostProfile& costs, int64_t bytes) {
  const int64_t elements = bytes / CostProfile::kElementBytes;
  check_positive("elements of a piece", static_cast<double>(elements));
  Buckets buckets;
  for (const ParameterRange& layer : layer_ranges(costs)) {
    for (int64_t end = layer.end; end > layer.begin; end -= elements) {
      buckets.push_back({std::max(layer.begin, end - elements), end});
    }
  }
  return buckets;
}

std::vector<LayerSpan> layers_of(const Buckets& buckets, const CostProfile& costs) {
  const std::vector<ParameterRange> ranges = layer_ranges(costs);
  std::vector<LayerSpan> spans;
  size_t next = 0;  // behind the last layer of the bucket before
  for (const ParameterRange& bucket : buckets) {
    size_t front = 0, back = 0;
    if (bucket.size() == 0) {
      const bool has_layer = next < ranges.size() && ranges[next] == bucket;
      front = back = (has_layer || next == 0) ? next : next - 1;
    } else {
      front = next > 0 && ranges[next - 1].begin < bucket.end ? next - 1 : next;
      while (ranges[front].begin >= bucket.end) ++front;
      back = front;
      while (ranges[back].begin > bucket.begin) ++back;
    }
    spans.push_back({front, back});
    next = back + 1;
  }
  return spans;
}

}  // namespace ndtrain
