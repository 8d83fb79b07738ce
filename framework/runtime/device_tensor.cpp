#include "framework/runtime/device_tensor.h"

#include <algorithm>
#include <cstring>

#include "framework/core/log.h"

namespace ndtrain {
namespace {

constexpr size_t kZeros = size_t{4} << 20;  // bytes at a time: the host does not need them all

}  // namespace

Tensor host_tensor(const Device& device, TensorType type) {
  if (device.shares_host_memory()) return Tensor(std::move(type));
  const size_t bytes = std::max<size_t>(type.bytes(), 1);
  void* pinned = nullptr;
  const ndt_status status = device.abi().host_alloc(device.handle(), bytes, &pinned);
  if (status == NDT_OUT_OF_MEMORY) {
    log::info("{}: copies go through ordinary memory: {}", device.backend().name(),
              device.abi().last_error());
    return Tensor(std::move(type));
  }
  device.backend().check(status, "pin memory");
  const auto release = [&device](std::byte* p) { device.abi().host_free(device.handle(), p); };
  std::shared_ptr<std::byte[]> data(static_cast<std::byte*>(pinned), release);
  std::memset(pinned, 0, bytes);
  return {std::move(type), std::move(data)};
}

DeviceTensor::DeviceTensor(const Device& device, TensorType type)
    : device_(&device),
      type_(std::move(type)),
      buffer_(device, std::max<size_t>(type_.bytes(), 1)) {
  clear();
}

void DeviceTensor::clear() {
  const size_t bytes = type_.bytes(), piece = std::min(bytes, kZeros);
  const Tensor zeros({DType::kU8, {static_cast<int64_t>(piece)}});
  for (size_t at = 0; at < bytes; at += piece) {
    device_->upload(static_cast<std::byte*>(data()) + at, zeros.data(),
                    std::min(piece, bytes - at));
  }
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
    : device_(&device),
      shared_(device.shares_host_memory()),
      host_(host_tensor(device, std::move(type))) {
  if (!shared_) there_ = DeviceBuffer(device, std::max<size_t>(host_.bytes(), 1));
}

void StagedTensor::send() {
  if (!shared_) device_->upload(there_.data(), host_.data(), host_.bytes());
}

void StagedTensor::fetch() {
  if (!shared_) device_->download(host_.mutable_data(), there_.data(), host_.bytes());
}

}  // namespace ndtrain
