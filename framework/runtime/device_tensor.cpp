#include "framework/runtime/device_tensor.h"

#include <algorithm>

namespace ndtrain {

DeviceTensor::DeviceTensor(const Device& device, TensorType type)
    : device_(&device),
      type_(std::move(type)),
      buffer_(device, std::max<size_t>(type_.bytes(), 1)) {
  set(Tensor(type_));
}

void DeviceTensor::set(const Tensor& value) {
  if (value.type() != type_) throw Error("a tensor is ", type_, ", was given ", value.type());
  device_->upload(data(), value.data(), value.bytes());
}

Tensor DeviceTensor::copy() const {
  Tensor t(type_);
  device_->download(t.mutable_data(), data(), t.bytes());
  return t;
}

StagedTensor::StagedTensor(const Device& device, TensorType type)
    : device_(&device), shared_(device.shares_host_memory()), host_(std::move(type)) {
  if (!shared_) there_ = DeviceBuffer(device, std::max<size_t>(host_.bytes(), 1));
}

void StagedTensor::send() {
  if (!shared_) device_->upload(there_.data(), host_.data(), host_.bytes());
}

void StagedTensor::fetch() {
  if (!shared_) device_->download(host_.mutable_data(), there_.data(), host_.bytes());
}

}  // namespace ndtrain
