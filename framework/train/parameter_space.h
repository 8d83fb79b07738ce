// The parameters that a training changes, as one flat space of f32: an optimizer's step, an
// all-reduce, a part of the moments is of any range of it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/device_tensor.h"
#include "framework/train/parameter_range.h"

namespace ndtrain {

struct ParameterSlot {
  std::string name;
  Shape shape;
  ParameterRange range;  // begins on a cache line; what is left over before the next is padding
};

// Not thread-safe.
class ParameterSpace {
 public:
  static constexpr int64_t kAlign = 16;  // elements between the beginnings of slots: a multiple

  // Lays `params` (f32, with data) out in their order, and takes their values to `device`, which
  // must outlive it. Throws Error.
  ParameterSpace(const Graph& g, std::span<const ValueId> params, const Device& device);
  // The same layout, and values as they are now, on another device.
  ParameterSpace(const ParameterSpace& like, const Device& device);

  std::span<const ParameterSlot> slots() const { return slots_; }
  size_t slot(const std::string& name) const;  // throws Error when there is no such parameter
  int64_t size() const { return values_.type().shape.count(); }  // in elements, with padding
  int64_t count() const;                                         // without

  // Device addresses of element `at`. Padding is zero in both.
  float* values(int64_t at = 0) const { return static_cast<float*>(values_.data()) + at; }
  float* gradients(int64_t at = 0) const { return static_cast<float*>(gradients_.data()) + at; }

  // All gradients in memory of the host: where they lie, or else copied to `room`.
  const float* gradients_on_host(Tensor& room) const;

  // A slot of `space`, which lies as the values do: these, or a moment. set() throws Error when the
  // type differs.
  Tensor copy(size_t slot, const float* space) const;
  void set(size_t slot, float* space, const Tensor& value) const;
  Tensor copy(size_t slot) const { return copy(slot, values()); }
  void set(size_t slot, const Tensor& value) { set(slot, values(), value); }

 private:
  const Device& device_;
  std::vector<ParameterSlot> slots_;
  std::map<std::string, size_t> by_name_;
  DeviceTensor values_, gradients_;
};

}  // namespace ndtrain
