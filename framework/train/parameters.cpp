#include "framework/train/parameters.h"

namespace ndtrain {
namespace {

constexpr int64_t kAlign = 16;  // floats: slots begin on cache lines

int64_t aligned(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

Parameters::Parameters(const Graph& g, std::span<const ValueId> params, const Device& device)
    : device_(device) {
  std::vector<int64_t> size;
  for (ValueId v : params) {
    const Value& p = g.value(v);
    if (p.type.dtype != DType::kF32 || !p.data.defined()) {
      throw Error("parameter '", p.name, "' cannot be trained: it is ", p.type,
                  p.data.defined() ? "" : " without a value", "; f32 is needed");
    }
    const int64_t n = aligned(p.type.shape.count());
    if (buckets_.empty() || size.back() + n > kBucketElements) {
      buckets_.push_back({.name = "bucket" + std::to_string(buckets_.size())});
      size.push_back(0);
    }
    if (!where_.emplace(p.name, Where{buckets_.size() - 1, buckets_.back().slots.size()}).second) {
      throw Error("parameter '", p.name, "' is there twice");
    }
    buckets_.back().slots.push_back({p.name, p.type.shape, size.back()});
    size.back() += n;
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].values = DeviceTensor(device, {DType::kF32, {size[i]}});
    buckets_[i].gradients = DeviceTensor(device, {DType::kF32, {size[i]}});
  }
  for (ValueId v : params) set(g.value(v).name, g.value(v).data);
}

const Parameters::Where& Parameters::where(const std::string& name) const {
  const auto it = where_.find(name);
  if (it == where_.end()) throw Error("there is no trainable parameter '", name, "'");
  return it->second;
}

float* Parameters::within(const DeviceTensor& bucket, const Where& w) const {
  return static_cast<float*>(bucket.data()) + buckets_[w.bucket].slots[w.slot].offset;
}

float* Parameters::value(const std::string& name) const {
  const Where& w = where(name);
  return within(buckets_[w.bucket].values, w);
}

float* Parameters::gradient(const std::string& name) const {
  const Where& w = where(name);
  return within(buckets_[w.bucket].gradients, w);
}

Tensor Parameters::copy(const std::string& name) const {
  const Where& w = where(name);
  Tensor t({DType::kF32, buckets_[w.bucket].slots[w.slot].shape});
  device_.download(t.mutable_data(), value(name), t.bytes());
  return t;
}

void Parameters::set(const std::string& name, const Tensor& value) {
  const Where& w = where(name);
  const TensorType type{DType::kF32, buckets_[w.bucket].slots[w.slot].shape};
  if (value.type() != type) {
    throw Error("parameter '", name, "' is ", type, ", was given ", value.type());
  }
  device_.upload(this->value(name), value.data(), value.bytes());
}

std::vector<std::string> Parameters::names() const {
  std::vector<std::string> names;
  for (const ParameterBucket& b : buckets_) {
    for (const ParameterSlot& s : b.slots) names.push_back(s.name);
  }
  return names;
}

int64_t Parameters::count() const {
  int64_t n = 0;
  for (const ParameterBucket& b : buckets_) {
    for (const ParameterSlot& s : b.slots) n += s.shape.count();
  }
  return n;
}

}  // namespace ndtrain
