// Runs single nodes through a plugin's C ABI, watching what the ABI promises: outputs and workspace
// are poisoned with NaN before and guarded behind.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "tests/runtime/laid_out.h"

namespace ndtrain {

struct NodeRun {
  std::string op;
  Attrs attrs;
  std::vector<TensorType> in, out;  // dtype kNone: absent
  std::vector<Bytes> data;          // one per input
  std::vector<bool> constant;       // inputs given at prepare()
  bool in_place = false;            // output 0 over each input that allows it, one after the other
  bool captured = false;  // once more as a graph, where the plugin can, with equal results
  int streams = 1;        // that run it at once, and must agree
  uint64_t first_id = 0;  // of the constants; 0: ids that nobody had
};

// How the values of a node lie.
struct Ports {
  std::vector<ndt_tensor_type> in, out;
};
Ports plain_ports(const NodeRun& node);

struct OpenDevice;

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
  // Whether one device serves all calls below, as it was when it was opened, until this is said
  // again; else each opens its own.
  void keep_open(bool keep) {
    kept_open_ = keep;
    kept_.reset();
  }
  // Devices are deterministic until a tuning file is named, and again after an empty name; or they
  // are for tuning, and measure.
  void set_tuning_file(const std::string& path, bool measures = false) {
    tuning_file_ = path;
    measures_ = measures;
  }
  std::string numerics() const;  // of a device as they are opened now
  void set_tf32(bool allowed) { tf32_ = allowed; }

  // The outputs, row-major. Adds a test failure and returns none when anything is refused or guards
  // are broken, padding lanes not zero or gaps written to.
  std::vector<Bytes> run(const NodeRun& node) const { return run(node, plain_ports(node)); }
  std::vector<Bytes> run(const NodeRun& node, const Ports& ports) const;
  // Why prepare() refuses; empty if it does not.
  std::string refusal(const NodeRun& node, const Ports& ports) const;
  // Prepares the node and keeps its kernel.
  using Held = std::shared_ptr<void>;
  Held hold(const NodeRun& node, const Ports& ports) const;
  // What the plugin would rather have when the inputs lie as in `now`; none: all plain.
  std::optional<Ports> prefer(const NodeRun& node, const Ports& now) const;

 private:
  Plugin() = default;
  std::shared_ptr<OpenDevice> device() const;

  std::string path_, tuning_file_;
  bool measures_ = false, tf32_ = false, kept_open_ = false;
  mutable std::shared_ptr<OpenDevice> kept_;
  ndt_backend_main_fn main_ = nullptr;
  const ndt_backend* abi_ = nullptr;
};

}  // namespace ndtrain
