#include "tests/cuda/fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "tests/cuda/fake_cudart_state.h"
#include "tests/cuda/fake_cudnn_handle.h"
#include "tests/cuda/fake_cudnn_plan.h"

namespace ndtrain::fake {
namespace {

// What a cudnnBackendDescriptor_t points to.
struct Opaque {
  std::shared_ptr<DnnDescriptor> descriptor;
};

std::mutex mutex;

std::set<const void*>& live() {
  static std::set<const void*> all;
  return all;
}

thread_local std::string last_reason;

template <typename F>
cudnnStatus_t answered(const F& body) {
  try {
    body();
    return CUDNN_STATUS_SUCCESS;
  } catch (const DnnRefusal& r) {
    last_reason = r.why;
    return r.status;
  }
}

Opaque& opaque(cudnnBackendDescriptor_t d) {
  const std::lock_guard lock(mutex);
  if (!live().count(d)) refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such descriptor");
  return *static_cast<Opaque*>(d);
}

const std::shared_ptr<DnnDescriptor>& finalized(cudnnBackendDescriptor_t d) {
  const std::shared_ptr<DnnDescriptor>& found = opaque(d).descriptor;
  if (!found->finalized) {
    refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
           "descriptor of type " + std::to_string(found->type) + " is not finalized");
  }
  return found;
}

void set(DnnDescriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t count, const void* values) {
  if (d.finalized) refuse(CUDNN_STATUS_BAD_PARAM, "a finalized descriptor does not change");
  check_attribute(d, name, type, count);
  if (!values) refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute without values");
  DnnAttribute a{.type = type, .count = count};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* list = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (int64_t i = 0; i < count; ++i) a.children.push_back(finalized(list[i]));
  } else {
    a.bytes.resize(static_cast<size_t>(count) * size_of_type(type));
    std::memcpy(a.bytes.data(), values, a.bytes.size());
  }
  d.attributes[name] = std::move(a);
}

void get(const DnnPtr& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t requested, int64_t* count, void* values) {
  DnnAttribute a;
  if (!computed_attribute(d, name, a)) {
    if (!d->has(name)) refuse(CUDNN_STATUS_BAD_PARAM, "attribute " + std::to_string(name));
    a = d->attributes.at(name);
  }
  if (a.type != type) refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "type of an attribute");
  if (count) *count = a.count;
  if (!values) return;
  const int64_t n = std::min(requested, a.count);
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::copy_n(a.bytes.data(), static_cast<size_t>(n) * size_of_type(type),
                static_cast<decltype(a.bytes.data())>(values));
    return;
  }
  // Descriptors are filled, which the caller made.
  auto* const list = static_cast<cudnnBackendDescriptor_t*>(values);
  for (int64_t i = 0; i < n; ++i) {
    const DnnPtr& child = a.children[static_cast<size_t>(i)];
    Opaque& to = opaque(list[i]);
    if (to.descriptor->type != child->type) {
      refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor to fill is of another type");
    }
    to.descriptor = std::make_shared<DnnDescriptor>(*child);
  }
}

}  // namespace

size_t dnn_descriptors() {
  const std::lock_guard lock(mutex);
  return live().size();
}

}  // namespace ndtrain::fake

using namespace ndtrain::fake;  // NOLINT(google-build-using-namespace): the C functions below

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (max_size == 0) return;
  std::strncpy(message, last_reason.c_str(), max_size - 1);
  message[max_size - 1] = 0;
  last_reason.clear();
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  auto* made = new Opaque{std::make_shared<DnnDescriptor>(DnnDescriptor{.type = type})};
  const std::lock_guard lock(mutex);
  live().insert(made);
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return answered([&] {
    Opaque* const gone = &opaque(descriptor);
    const std::lock_guard lock(mutex);
    live().erase(gone);
    delete gone;
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  return answered([&] { set(*opaque(descriptor).descriptor, name, type, count, values); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* values) {
  return answered([&] { get(finalized(descriptor), name, type, requested, count, values); });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return answered([&] {
    DnnDescriptor& d = *opaque(descriptor).descriptor;
    if (d.finalized) refuse(CUDNN_STATUS_BAD_PARAM, "finalized twice");
    check_complete(d);
    check_descriptor(d);
    d.finalized = true;
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return answered([&] { execute(handle->stream, *finalized(plan), *finalized(pack)); });
}
