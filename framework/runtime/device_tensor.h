// Tensors that a plan is bound to. Not thread-safe.
#pragma once

#include "framework/core/tensor.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// Lies on a device and stays there. Begins with zeros.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  DeviceTensor(const Device& device, TensorType type);

  const TensorType& type() const { return type_; }
  void* data() const { return buffer_.data(); }  // a device address
  void set(const Tensor& value);                 // throws Error when the type differs
  Tensor copy() const;

 private:
  const Device* device_ = nullptr;
  TensorType type_;
  DeviceBuffer buffer_;
};

// Written by the host and read by the device, or the other way round, again and again: one memory
// where they share it, else two.
class StagedTensor {
 public:
  StagedTensor() = default;
  StagedTensor(const Device& device, TensorType type);

  Tensor& host() { return host_; }
  void* data() { return shared_ ? host_.mutable_data() : there_.data(); }  // a device address
  void send();   // after the host has written
  void fetch();  // before the host reads

 private:
  const Device* device_ = nullptr;
  bool shared_ = true;
  Tensor host_;
  DeviceBuffer there_;
};

}  // namespace ndtrain
