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

int64_t rows_of(std::span<const Tensor> inputs) {
  if (inputs.empty() || inputs[0].shape().rank() == 0)
    throw Error("batch: there is no input with rows");
  const int64_t rows = inputs[0].shape()[0];
  if (rows < 1) throw Error("batch: ", inputs[0].type(), " has no rows");
  for (const Tensor& t : inputs) {
    if (t.shape().rank() > 0 && t.shape()[0] == rows) continue;
    throw Error("batch: inputs have ", rows, " and ", t.shape()[0], " rows");
  }
  return rows;
}

// Copies the first n rows of outputs with `bucket` rows to rows [begin, begin + n) of `total` rows.
void put_rows(std::span<const Tensor> out, int64_t bucket, int64_t n, std::vector<Tensor>& results,
              int64_t begin, int64_t total) {
  for (size_t k = 0; k < out.size(); ++k) {
    const Tensor& t = out[k];
    if (t.shape().rank() == 0 || t.shape()[0] != bucket) {
      throw Error("batch: an output is ", t.type(), " for ", bucket, " rows");
    }
    if (results.size() == k) {
      results.emplace_back(TensorType{t.type().dtype, t.shape().with(0, total)});
    }
    std::memcpy(static_cast<std::byte*>(results[k].mutable_data()) + row_bytes(t) * begin, t.data(),
                row_bytes(t) * n);
  }
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
  const int64_t total = rows_of(inputs);
  std::vector<Tensor> results;
  for (int64_t begin = 0; begin < total;) {
    Prepared& p = fitting(total - begin);
    const int64_t n = std::min(max_batch_, total - begin);
    std::vector<Tensor> rows;
    for (const Tensor& t : inputs) {
      rows.push_back(device_.shares_host_memory() ? padded_rows(t, begin, n, bucket(n))
                                                  : t.rows(begin, n));
    }
    put_rows(p.executor.run(rows), bucket(n), n, results, begin, total);
    begin += n;
  }
  return results;
}

BatchPlans::Started BatchPlans::start(std::span<const Tensor> inputs) {
  constexpr size_t kAtOnce = 2;  // one is copied, one computes
  const int64_t rows = rows_of(inputs);
  Prepared& p = fitting(rows);
  if (rows > max_batch_ || p.executor.reserve(kAtOnce) < kAtOnce) return Started(run(inputs));
  return {p.executor, p.executor.start(inputs), bucket(rows), rows};
}

std::vector<Tensor> BatchPlans::Started::finish() {
  if (!executor_) return std::move(results_);
  std::vector<Tensor> results;
  put_rows(std::exchange(executor_, nullptr)->finish(run_), bucket_, rows_, results, 0, rows_);
  return results;
}

BatchPlans::Started::~Started() {
  if (!executor_) return;
  try {
    executor_->finish(run_);
  } catch (const Error&) {  // nobody wants its results
  }
}

}  // namespace ndtrain
