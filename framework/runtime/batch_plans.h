#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework/passes/photo_input.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/plan.h"

namespace ndtrain {

// Inference for any number of rows: plans of one model for batches of 1, 2, 4 … max, made when
// first needed; they share packed weights inside the backend. A partial batch is padded with zeros
// and the padding dropped again, so a row's result must depend on that row alone: graphs that train
// batch normalisation do not belong here. Where a device has too little memory for a batch, smaller
// ones are run from then on. One thread at a time.
class BatchPlans {
 public:
  using MakeGraph = std::function<Graph(int64_t batch)>;

  // `make(b)` gives the graph whose inputs and outputs have leading dimension b.
  BatchPlans(MakeGraph make, const Device& device, int64_t max_batch);

  // All tensors have the same leading dimension n >= 1, which may exceed max_batch.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

  // A run that may be under way. Ends with finish(), or with the object, which waits.
  class Started {
   public:
    Started(Started&& o) noexcept
        : executor_(std::exchange(o.executor_, nullptr)),
          run_(o.run_),
          bucket_(o.bucket_),
          rows_(o.rows_),
          results_(std::move(o.results_)) {}
    Started& operator=(Started&&) = delete;
    ~Started();

    bool under_way() const { return executor_ != nullptr; }
    std::vector<Tensor> finish();  // what run() gives; once

   private:
    friend class BatchPlans;
    explicit Started(std::vector<Tensor> results) : results_(std::move(results)) {}
    Started(Executor& executor, size_t run, int64_t bucket, int64_t rows)
        : executor_(&executor), run_(run), bucket_(bucket), rows_(rows) {}

    Executor* executor_ = nullptr;
    size_t run_ = 0;
    int64_t bucket_ = 0, rows_ = 0;
    std::vector<Tensor> results_;
  };
  // Begins what run() does. On a device with memory of its own the rows are copied and computed
  // while the caller goes on, which leaves them as they are until finish(); tensors of
  // host_tensor() go there the fastest. While a run is under way one more may be started, or run:
  // its rows are copied while the first computes. Everywhere else, and where memory or rows do not
  // suffice for that, the run is not under way but done.
  Started start(std::span<const Tensor> inputs);

  // From now on, and before anything runs, the network reads the bytes of photos: see
  // reading_photos(). On a device to which bytes travel faster than floats.
  void read_photos(const PhotoInput& photos) { photos_ = photos; }
  bool reads_photos() const { return photos_.has_value(); }
  const Device& device() const { return device_; }
  int64_t max_batch() const { return max_batch_; }
  int64_t bucket(int64_t n) const;  // the smallest bucket that holds n rows
  const Plan& plan(int64_t bucket);

 private:
  struct Prepared {
    explicit Prepared(const Graph& g, const Device& d) : plan(g, d), executor(plan) {}
    Plan plan;
    Executor executor;
  };
  Prepared& prepared(int64_t bucket);
  Prepared& fitting(int64_t rows);  // for as many of them as there is memory for

  MakeGraph make_;
  const Device& device_;
  int64_t max_batch_;
  std::optional<PhotoInput> photos_;
  std::map<int64_t, std::unique_ptr<Prepared>> plans_;
};

}  // namespace ndtrain
