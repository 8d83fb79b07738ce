#include "framework/runtime/batch_plans.h"

#include <algorithm>
#include <cstring>

#include "framework/core/log.h"

namespace ndtrain {
namespace {

size_t row_bytes(const Tensor& t) {
  return t.shape()[0] == 0 ? 0 : t.bytes() / static_cast<size_t>(t.shape()[0]);
}

// Rows [begin, begin + n) of `t`, followed by zeros up to `bucket` rows.
Tensor padded_rows(const Tensor& t, int64_t begin, int64_t n, int64_t bucket) {
  if (begin == 0 && n == t.shape()[0] && n == bucket) return t;
  Tensor rows({t.type().dtype, t.shape().with(0, bucket)});
  std::memcpy(rows.mutable_data(), static_cast<const std::byte*>(t.data()) + row_bytes(t) * begin,
              row_bytes(t) * n);
  return rows;
}

}  // namespace

BatchPlans::BatchPlans(MakeGraph make, const Device& device, int64_t max_batch)
    : make_(std::move(make)), device_(device), max_batch_(max_batch) {
  if (max_batch < 1) throw Error("a batch has at least one item, not ", max_batch);
}

int64_t BatchPlans::bucket(int64_t n) const {
  int64_t b = 1;
  while (b < n) b *= 2;
  return std::min(b, max_batch_);
}

BatchPlans::Prepared& BatchPlans::prepared(int64_t bucket) {
  std::unique_ptr<Prepared>& p = plans_[bucket];
  if (!p) {
    const Graph g = make_(bucket);
    p = std::make_unique<Prepared>(photos_ ? reading_photos(g, *photos_) : g, device_);
  }
  return *p;
}

BatchPlans::Prepared& BatchPlans::fitting(int64_t rows) {
  for (;;) {
    const int64_t b = bucket(std::min(max_batch_, rows));
    try {
      Prepared& p = prepared(b);
      p.executor.reserve();
      return p;
    } catch (const OutOfMemory& e) {
      if (b == 1) throw;
      plans_.erase(b);
      max_batch_ = b / 2;
      log::warn("a batch of {} does not fit, {} is tried: {}", b, max_batch_, e.what());
    }
  }
}

const Plan& BatchPlans::plan(int64_t bucket) { return prepared(bucket).plan; }

std::vector<Tensor> BatchPlans::run(std::span<const Tensor> inputs) {
  if (inputs.empty() || inputs[0].shape().rank() == 0)
    throw Error("batch: there is no input with rows");
  const int64_t total = inputs[0].shape()[0];
  if (total < 1) throw Error("batch: ", inputs[0].type(), " has no rows");
  std::vector<Tensor> results;
  for (int64_t begin = 0; begin < total;) {
    Prepared& p = fitting(total - begin);
    const int64_t n = std::min(max_batch_, total - begin);
    std::vector<Tensor> rows;
    for (const Tensor& t : inputs) {
      if (t.shape()[0] != total) {
        throw Error("batch: inputs have ", total, " and ", t.shape()[0], " rows");
      }
      rows.push_back(padded_rows(t, begin, n, bucket(n)));
    }
    const std::vector<Tensor> out = p.executor.run(rows);
    for (const Tensor& t : out) {
      if (t.shape().rank() == 0 || t.shape()[0] != bucket(n)) {
        throw Error("batch: an output is ", t.type(), " for ", bucket(n), " rows");
      }
    }
    if (results.empty()) {
      for (const Tensor& t : out)
        results.emplace_back(TensorType{t.type().dtype, t.shape().with(0, total)});
    }
    for (size_t k = 0; k < out.size(); ++k) {
      std::memcpy(static_cast<std::byte*>(results[k].mutable_data()) + row_bytes(out[k]) * begin,
                  out[k].data(), row_bytes(out[k]) * n);
    }
    begin += n;
  }
  return results;
}

}  // namespace ndtrain
