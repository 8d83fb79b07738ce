// Descriptors of the fake cuDNN: typed attributes, finalized once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/fake_cudnn.h"

namespace ndtrain::fake {

struct DnnDescriptor;
using DnnPtr = std::shared_ptr<const DnnDescriptor>;

struct DnnAttribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;  // of all elements
  std::vector<DnnPtr> children;  // of descriptors
  int64_t count = 0;
};

struct DnnDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, DnnAttribute> attributes;  // by cudnnBackendAttributeName_t

  bool has(int name) const { return attributes.count(name) != 0; }
  // Of attributes that are there.
  template <typename T>
  std::vector<T> list(int name) const {
    const DnnAttribute& a = attributes.at(name);
    const T* values = reinterpret_cast<const T*>(a.bytes.data());
    return {values, values + a.bytes.size() / sizeof(T)};
  }
  template <typename T>
  T value(int name) const {
    return list<T>(name).at(0);
  }
  const std::vector<DnnPtr>& children(int name) const { return attributes.at(name).children; }
  const DnnPtr& child(int name) const { return children(name).at(0); }
};

int64_t element_bytes(cudnnDataType_t type);  // refuses types that the fake does not know

// Why a descriptor or a graph is refused.
struct DnnRefusal {
  cudnnStatus_t status;
  std::string why;
};
[[noreturn]] void refuse(cudnnStatus_t status, const std::string& why);

// A tensor as its descriptor says.
struct DnnTensor {
  explicit DnnTensor(const DnnDescriptor& d);
  int64_t uid;
  cudnnDataType_t type;
  std::vector<int64_t> dims, strides;
  bool is_virtual = false, by_value = false;

  int64_t count() const;
  size_t bytes() const;  // from the first element to the last
  bool operator==(const DnnTensor&) const = default;
};

size_t size_of_type(cudnnBackendAttributeType_t type);
// What the attribute may be given, else refuses.
void check_attribute(const DnnDescriptor& d, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count);
void check_complete(const DnnDescriptor& d);  // all that is required is there

}  // namespace ndtrain::fake
