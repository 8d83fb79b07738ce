// Tensors that a plan is bound to. Not thread-safe.
#pragma once

#include "framework/core/tensor.h"
#include "framework/runtime/backend.h"

namespace ndtrain {

// Zeros in memory of the host. Where the device has memory of its own they lie where copies to and
// from it go on by themselves (pinned), unless the host has none left: then in ordinary memory,
// with slower copies. The device must outlive the tensor. Takes long: not for every batch.
Tensor host_tensor(const Device& device, TensorType type);

// Lies on a device and stays there. Begins with zeros.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  DeviceTensor(const Device& device, TensorType type);

  const TensorType& type() const { return type_; }
  void* data() const { return buffer_.data(); }  // a device address
  void set(const Tensor& value);                 // throws Error when the type differs
  void clear();                                  // to zeros
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
