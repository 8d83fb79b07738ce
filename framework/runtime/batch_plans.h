#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "framework/graph/photo_input.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/plan.h"

namespace ndtrain {

// Inference for any number of rows: plans of one model for batches of 1, 2, 4 … max, made when
// first needed; they share packed weights inside the backend. A partial batch is padded with zeros
// and the padding dropped again, so a row's result must depend on that row alone: graphs that train
// batch normalisation do not belong here. Where a device has too little memory for a batch, smaller
// ones are run from then on. One run at a time.
class BatchPlans {
 public:
  using MakeGraph = std::function<Graph(int64_t batch)>;

  // `make(b)` gives the graph whose inputs and outputs have leading dimension b.
  BatchPlans(MakeGraph make, const Device& device, int64_t max_batch);

  // All tensors have the same leading dimension n >= 1, which may exceed max_batch.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

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
