// The C ABI of the cpu plugin.
#include <cblas.h>

#include <sstream>

#include "backends/cpu/kernels/kernel.h"
#include "backends/cpu/kernels/plain_loops.h"
#include "backends/cpu/version.h"
#include "backends/plugin/host_backend.h"
#include "backends/plugin/op.h"

struct ndt_device {
  bool less_memory = false;
};

namespace ndtrain::cpu {
namespace {

constexpr const char* kName = "cpu";

ndt_status open(int32_t index, const ndt_options* options, ndt_device** device) {
  return guarded("open", [&] {
    check_device_index(kName, index);
    *device = new ndt_device{options && options->less_memory != 0};
    return NDT_OK;
  });
}

ndt_status prepare(ndt_device* device, const ndt_node* abi_node, ndt_prepared* out) {
  const auto make = [&](const KernelRow& row, const plugin::Node& asked) {
    const bool gaps = row.trait == Trait::kGapped;
    const Node node(asked.abi(), gaps, device && device->less_memory);
    std::unique_ptr<Kernel> kernel = row.make(node);
    const ndt_dtype t = node.has(0) ? node.in(0).dtype : NDT_ABSENT;
    if (row.trait == Trait::kPlain && (t == NDT_F16 || t == NDT_F64)) say_plain_loops(node);
    return kernel;
  };
  return prepare_op(kName, abi_node, out, find_kernel, make);
}

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" -> "0.3.21"
std::string openblas_version() {
  std::istringstream words(openblas_get_config());
  std::string name, version;
  words >> name >> version;
  return version;
}

bool runs_here() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("x86-64-v4");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("x86-64-v3");
#else
  return true;
#endif
}

const ndt_backend* backend() {
  if (!runs_here()) return nullptr;
  if (!registered_twice().empty()) {  // of two, chance would have to choose
    plugin::log(Level::kError, text_of("the cpu backend has two kernels for ", registered_twice()));
    return nullptr;
  }
  openblas_set_num_threads(1);
  static const std::string numerics =
      text_of(kName, " " NDT_CPU_VERSION " " NDT_CPU_LEVEL " openblas-", openblas_version(), '-',
              openblas_get_corename());
  static const ndt_backend table = [] {
    ndt_backend t = host_backend(kName);
    t.numerics = numerics.c_str();
    t.open = open;
    t.close = [](ndt_device* device) { delete device; };
    t.prepare = prepare;
    return t;
  }();
  return &table;
}

}  // namespace
}  // namespace ndtrain::cpu

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t version, const ndt_host* host) {
  return ndtrain::plugin::enter(version, host, ndtrain::cpu::backend);
}
