// Runs single nodes through a plugin's C ABI, watching what the ABI promises: outputs and workspace
// are poisoned with NaN before and guarded behind.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/runtime/backend_abi.h"

namespace ndtrain {

// Exactly as many bytes as asked for, 64-byte aligned, so that a sanitizer sees any overrun.
class Bytes {
 public:
  explicit Bytes(size_t size, int fill = 0);
  Bytes(size_t size, const void* from);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool operator==(const Bytes& o) const;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

struct NodeRun {
  std::string op;
  Attrs attrs;
  std::vector<TensorType> in, out;  // dtype kNone: absent
  std::vector<Bytes> data;          // one per input
  std::vector<bool> constant;       // inputs given at prepare()
  bool in_place = false;            // output 0 over each input that allows it, one after the other
};

class Plugin {
 public:
  // Null when the library is not there or does not serve this machine.
  static std::unique_ptr<Plugin> load(const std::string& path);
  // Every build of the cpu plugin in $NDTRAIN_BACKEND_PATH that runs here.
  static const std::vector<std::unique_ptr<Plugin>>& cpu_builds();

  const ndt_backend& abi() const { return *abi_; }
  const std::string& path() const { return path_; }
  // How many threads the host lends from now on. Chunks are handed out last first when it is 1.
  void set_threads(int threads);

  // The outputs. Adds a test failure and returns none when anything is refused or guards are
  // broken.
  std::vector<Bytes> run(const NodeRun& node) const;

 private:
  Plugin() = default;
  std::string path_;
  ndt_backend_main_fn main_ = nullptr;
  const ndt_backend* abi_ = nullptr;
};

}  // namespace ndtrain
