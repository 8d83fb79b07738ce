#include "backends/cuda/dnn/descriptor.h"

#include <utility>

#include "backends/cuda/check.h"

namespace ndtrain::cuda {
Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &descriptor_),
        "make cuDNN descriptor " + std::to_string(type));
}

Descriptor::~Descriptor() {
  if (descriptor_) (void)cudnnBackendDestroyDescriptor(descriptor_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                     const void* values) {
  check(cudnnBackendSetAttribute(descriptor_, name, type, n, values),
        "set cuDNN attribute " + std::to_string(name));
}

void Descriptor::set(cudnnBackendAttributeName_t name, int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::set(cudnnBackendAttributeName_t name, double value) {
  set(name, CUDNN_TYPE_DOUBLE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  set(name, CUDNN_TYPE_FLOAT, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  set(name, CUDNN_TYPE_HANDLE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
  const std::vector<cudnnBackendDescriptor_t> list = addresses(values);
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(list.size()), list.data());
}

void Descriptor::finalize() {
  check(cudnnBackendFinalize(descriptor_), "finalize a cuDNN descriptor");
}

int64_t Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t most, void* values) const {
  int64_t n = 0;
  check(cudnnBackendGetAttribute(descriptor_, name, type, most, &n, values),
        "ask for cuDNN attribute " + std::to_string(name));
  return n;
}

int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

std::vector<Descriptor> descriptors(cudnnBackendDescriptorType_t type, int64_t n) {
  std::vector<Descriptor> list;
  for (int64_t i = 0; i < n; ++i) list.emplace_back(type);
  return list;
}

std::vector<cudnnBackendDescriptor_t> addresses(const std::vector<Descriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> list;
  for (const Descriptor& d : descriptors) list.push_back(d.get());
  return list;
}

}  // namespace ndtrain::cuda
