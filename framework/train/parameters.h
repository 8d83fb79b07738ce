// The parameters a training changes, in a few contiguous buckets: an optimizer step and, later, an
// all-reduce work on a bucket at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/device_tensor.h"

namespace ndtrain {

struct ParameterSlot {
  std::string name;
  Shape shape;
  int64_t offset;  // in elements from the start of its bucket
};

struct ParameterBucket {
  std::string name;
  std::vector<ParameterSlot> slots;
  DeviceTensor values, gradients;  // f32, rank 1; padding between slots is zero in both
};

class Parameters {
 public:
  static constexpr int64_t kBucketElements = (int64_t{25} << 20) / 4;  // as DDP's 25 MiB

  // Takes the initial values of `params` (f32, with data) to `device`, which must outlive it. A
  // parameter larger than a bucket gets one of its own.
  Parameters(const Graph& g, std::span<const ValueId> params, const Device& device);

  std::span<ParameterBucket> buckets() { return buckets_; }
  std::span<const ParameterBucket> buckets() const { return buckets_; }

  // Device addresses of one parameter; throw Error when there is no such name.
  float* value(const std::string& name) const;
  float* gradient(const std::string& name) const;
  Tensor copy(const std::string& name) const;
  void set(const std::string& name, const Tensor& value);  // throws Error when the type differs
  std::vector<std::string> names() const;                  // in bucket order
  int64_t count() const;                                   // elements, without padding

 private:
  struct Where {
    size_t bucket, slot;
  };
  const Where& where(const std::string& name) const;
  float* within(const DeviceTensor& bucket, const Where& w) const;

  const Device& device_;
  std::vector<ParameterBucket> buckets_;
  std::map<std::string, Where> where_;
};

}  // namespace ndtrain
