// A descriptor of cuDNN's graph API: attributes are set, then it is finalized and never changes.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ndtrain::cuda {

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  // All of these throw Failure, with cuDNN's reason: Unsupported where that is its answer.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
           const void* values);
  void set(cudnnBackendAttributeName_t name, int64_t value);
  void set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  void set(cudnnBackendAttributeName_t name, double value);
  void set(cudnnBackendAttributeName_t name, float value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values);
  void finalize();

  // At most `most` values are asked for, into `values`; how many there are.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  int64_t integer(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// `n` descriptors of a type, for cuDNN to fill.
std::vector<Descriptor> descriptors(cudnnBackendDescriptorType_t type, int64_t n);
std::vector<cudnnBackendDescriptor_t> addresses(const std::vector<Descriptor>& descriptors);

}  // namespace ndtrain::cuda
