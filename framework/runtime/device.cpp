#include <cstring>
#include <utility>

#include "framework/core/log.h"
#include "framework/runtime/backend.h"

namespace ndtrain {
namespace {

constexpr const char* kFallback = "cpu";  // supports every op

using OnChoice = std::function<void(const TunedLayer&)>;

void tell_choice(void* arg, const ndt_choice* c) noexcept {
  (*static_cast<const OnChoice*>(arg))({.layer = c->layer,
                                        .chosen = c->chosen,
                                        .rule = c->rule,
                                        .chosen_seconds = c->chosen_seconds,
                                        .rule_seconds = c->rule_seconds});
}

// Null where the device shall not read one.
const char* tuning_file_for(const Backend& backend, const DeviceOptions& options) {
  if (options.tuning_file.empty() || backend.reads_tuning()) {
    return options.tuning_file.empty() ? nullptr : options.tuning_file.c_str();
  }
  if (options.on_choice) {
    throw Error("the ", backend.name(), " backend follows a fixed rule: nothing of it is tuned");
  }
  if (!options.deterministic) {
    log::warn("the {} backend follows a fixed rule: it does not use the tuning file {}",
              backend.name(), options.tuning_file);
  }
  return nullptr;
}

}  // namespace

Device::Device(const Backend& backend, const DeviceOptions& options)
    : backend_(backend),
      deterministic_(options.deterministic),
      less_memory_(options.less_memory),
      on_choice_(options.on_choice) {
  const ndt_options abi_options{.deterministic = options.deterministic,
                                .allow_tf32 = options.tf32,
                                .tuning_file = tuning_file_for(backend, options),
                                .less_memory = options.less_memory,
                                .on_choice = on_choice_ ? tell_choice : nullptr,
                                .on_choice_arg = &on_choice_};
  if (options.fallback && abi().prefer && abi().shares_host_memory && backend.name() != kFallback) {
    DeviceOptions plain = options;
    plain.tuning_file.clear();
    plain.on_choice = {};
    fallback_ = std::make_unique<Device>(Backend::find(kFallback), plain);
  }
  backend.check(abi().open(options.index, &abi_options, &handle_), "open a device");
  if (shares_host_memory()) return;
  const ndt_status status = abi().stream_create(handle_, &copies_);
  if (status == NDT_OK) return;
  const std::string why = abi().last_error();
  abi().close(handle_);
  throw Error(backend.name(), ": stream: ", why);
}

Device::~Device() {
  if (copies_) abi().stream_destroy(copies_);
  abi().close(handle_);
}

void Device::upload(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (!copies_) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::lock_guard lock(copying_);
  backend_.check(abi().upload(copies_, to, from, bytes), "upload");
  backend_.check(abi().stream_wait(copies_), "upload");
}

void Device::download(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) return;
  if (!copies_) {
    std::memcpy(to, from, bytes);
    return;
  }
  const std::lock_guard lock(copying_);
  backend_.check(abi().download(copies_, to, from, bytes), "download");
  backend_.check(abi().stream_wait(copies_), "download");
}

std::string Device::description() const { return abi().describe ? abi().describe(handle_) : ""; }

std::string Device::numerics() const {
  std::string own = backend_.reads_tuning() ? abi().device_numerics(handle_) : abi().numerics;
  if (less_memory_) own += " less-memory";
  return fallback_ ? own + " + " + fallback_->numerics() : own;
}

DeviceBuffer::DeviceBuffer(const Device& device, size_t bytes) : device_(&device), bytes_(bytes) {
  device.backend().check(device.abi().alloc(device.handle(), bytes, &data_),
                         "allocate " + std::to_string(bytes) + " bytes");
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& o) noexcept {
  std::swap(device_, o.device_);
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) device_->abi().free(device_->handle(), data_);
}

ndt_tensor_type abi_type(const TensorType& t) {
  ndt_tensor_type a{};
  a.dtype = static_cast<ndt_dtype>(t.dtype);
  a.rank = t.shape.rank();
  const std::vector<int64_t> strides = t.shape.strides();
  for (int i = 0; i < a.rank; ++i) {
    a.dims[i] = t.shape[i];
    a.strides[i] = strides[static_cast<size_t>(i)];
  }
  return a;
}

}  // namespace ndtrain
