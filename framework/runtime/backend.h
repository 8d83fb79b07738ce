#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/thread_pool.h"
#include "framework/graph/graph.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain {

// A device has less memory than was asked for.
struct OutOfMemory : Error {
  using Error::Error;
};

// A loaded plugin. Never unloaded: kernels and threads may outlive any one user. Thread-safe.
class Backend {
 public:
  // `name` ("cpu") is looked for as plugin_file.h says; "auto" is the first of available(). Loaded
  // once per process. Throws Error saying where it looked and why each candidate was refused.
  static const Backend& find(std::string_view name);
  static const Backend& load(const std::string& path);
  // Names of the plugins of this project, built or not, the fastest first.
  static std::span<const char* const> known();
  // Those of them that load here and find a device.
  static std::vector<std::string> available();
  // Why a plugin is not available, "not built" where there is none; empty when it is.
  static std::string refusal(const std::string& name);

  const ndt_backend& abi() const { return *abi_; }
  const std::string& path() const { return path_; }
  std::string name() const { return abi_->name; }
  // Whether its devices take choices of algorithm from a tuning file.
  bool reads_tuning() const;

  // Throws Error with the plugin's own words unless `s` is NDT_OK; OutOfMemory where it was that.
  void check(ndt_status s, const std::string& what) const;

 private:
  Backend(const ndt_backend* abi, std::string path) : abi_(abi), path_(std::move(path)) {}
  const ndt_backend* abi_;
  std::string path_;
};

// Threads lent to every backend. Set before the first Device is opened; default: all cores.
void set_threads(int threads);
ThreadPool& shared_threads();

// Which algorithm a layer takes by measurement, and which by the fixed rule.
struct TunedLayer {
  std::string layer, chosen, rule;
  double chosen_seconds = 0, rule_seconds = 0;  // 0: not measured now
};

struct DeviceOptions {
  int32_t index = 0;
  bool deterministic = false;
  // Measured choices of algorithm; "": none. A deterministic device has no use for it.
  std::string tuning_file = {};
  // The device is for tuning only: its plans measure what the file lacks, add it there, and tell
  // every choice here, in the thread that plans.
  std::function<void(const TunedLayer&)> on_choice = {};
  bool less_memory = false;  // no algorithm that is faster but takes more memory: other bits
  bool tf32 = false;         // products of f32 may round their factors to tf32, where there is one
  bool fallback = true;      // see Device::fallback()
};

// One device of a backend, opened. Thread-safe.
class Device {
 public:
  // Throws Error; also where the tuning file is not there or is none. One that has nothing for this
  // device, or that its backend does not read, is warned of.
  Device(const Backend& backend, const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Backend& backend() const { return backend_; }
  const ndt_backend& abi() const { return backend_.abi(); }
  ndt_device* handle() const { return handle_; }
  // Chip, memory, driver, for people; empty where the plugin has nothing to say.
  std::string description() const;
  // Plugin, version, instruction set, of the fallback too, that memory was saved, and a digest of
  // what was tuned against the rule: stored beside each feature. Final when the device is opened.
  std::string numerics() const;
  // Where nodes go that this device's backend refuses: the cpu backend, or null when this is it, or
  // its memory is not the host's. Work on either is done when run() returns.
  const Device* fallback() const { return fallback_.get(); }
  // Algorithms and the order of sums follow a fixed rule.
  bool deterministic() const { return deterministic_; }
  // Whether the host reads and writes the device's memory as its own.
  bool shares_host_memory() const { return abi().shares_host_memory != 0; }

  // Copies between the host and the device; done when they return. Throw Error.
  void upload(void* to, const void* from, size_t bytes) const;
  void download(void* to, const void* from, size_t bytes) const;

 private:
  const Backend& backend_;
  ndt_device* handle_ = nullptr;
  bool deterministic_ = false, less_memory_ = false;
  std::function<void(const TunedLayer&)> on_choice_;
  mutable std::mutex copying_;
  ndt_stream* copies_ = nullptr;  // null where memory is shared
  std::unique_ptr<Device> fallback_;
};

// Device memory. Freed with the object.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const Device& device, size_t bytes);  // throws Error when there is not as much
  DeviceBuffer(DeviceBuffer&& o) noexcept { *this = std::move(o); }
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  const Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

ndt_tensor_type abi_type(const TensorType& t);  // plain row-major strides

}  // namespace ndtrain
