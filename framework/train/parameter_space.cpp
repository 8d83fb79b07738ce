#include "framework/train/parameter_space.h"

namespace ndtrain {
namespace {

int64_t aligned(int64_t n) {
  return (n + ParameterSpace::kAlign - 1) / ParameterSpace::kAlign * ParameterSpace::kAlign;
}

}  // namespace

ParameterSpace::ParameterSpace(const Graph& g, std::span<const ValueId> params,
                               const Device& device)
    : device_(device) {
  int64_t size = 0;
  for (ValueId v : params) {
    const Value& p = g.value(v);
    if (p.type.dtype != DType::kF32 || !p.data.defined()) {
      throw Error("parameter '", p.name, "' cannot be trained: it is ", p.type,
                  p.data.defined() ? "" : " without a value", "; f32 is needed");
    }
    if (!by_name_.emplace(p.name, slots_.size()).second) {
      throw Error("parameter '", p.name, "' is there twice");
    }
    slots_.push_back({p.name, p.type.shape, {size, size + p.type.shape.count()}});
    size += aligned(p.type.shape.count());
  }
  values_ = DeviceTensor(device, {DType::kF32, {size}});
  gradients_ = DeviceTensor(device, {DType::kF32, {size}});
  for (size_t i = 0; i < slots_.size(); ++i) set(i, g.value(params[i]).data);
}

ParameterSpace::ParameterSpace(const ParameterSpace& like, const Device& device)
    : device_(device),
      slots_(like.slots_),
      by_name_(like.by_name_),
      values_(device, like.values_.type()),
      gradients_(device, like.gradients_.type()) {
  values_.set(like.values_.copy());
}

size_t ParameterSpace::slot(const std::string& name) const {
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) throw Error("there is no trainable parameter '", name, "'");
  return it->second;
}

int64_t ParameterSpace::count() const {
  int64_t n = 0;
  for (const ParameterSlot& s : slots_) n += s.range.size();
  return n;
}

const float* ParameterSpace::gradients_on_host(Tensor& room) const {
  if (device_.shares_host_memory()) return gradients();
  if (!room.defined()) room = host_tensor(device_, gradients_.type());
  device_.download(room.mutable_data(), gradients(), room.bytes());
  return room.as<float>().data();
}

Tensor ParameterSpace::copy(size_t slot, const float* space) const {
  const ParameterSlot& s = slots_.at(slot);
  Tensor t({DType::kF32, s.shape});
  device_.download(t.mutable_data(), space + s.range.begin, t.bytes());
  return t;
}

void ParameterSpace::set(size_t slot, float* space, const Tensor& value) const {
  const ParameterSlot& s = slots_.at(slot);
  const TensorType type{DType::kF32, s.shape};
  if (value.type() != type) {
    throw Error("parameter '", s.name, "' is ", type, ", was given ", value.type());
  }
  device_.upload(space + s.range.begin, value.data(), value.bytes());
}

}  // namespace ndtrain
