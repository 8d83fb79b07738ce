// The C ABI of the onednn plugin.
#include "backends/onednn/chip.h"
#include "backends/onednn/dnnl.h"
#include "backends/onednn/kernel.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/version.h"
#include "backends/plugin/host_backend.h"
#include "backends/plugin/op.h"

namespace ndtrain::onednn {
namespace {

constexpr const char* kName = "onednn";

const std::string& fixed_numerics() {
  static const std::string text = text_of(kName, ' ', library_name(), " " NDT_ONEDNN_VERSION);
  return text;
}

ndt_status open(int32_t index, const ndt_options* options, ndt_device** device) {
  return guarded("open", [&] {
    check_device_index(kName, index);
    auto opened = std::make_unique<ndt_device>();
    const std::string chip = chip_name(), library = library_name();
    opened->numerics = fixed_numerics();
    opened->description = chip + ", oneDNN " + library;
    if (options) {
      opened->less_memory = options->less_memory;
      opened->tuning = Tuning::open(*options, {kName, chip, library, host().log});
    }
    if (opened->tuning) {
      opened->numerics += opened->tuning->digest();
      opened->description += "; " + opened->tuning->description();
    }
    *device = opened.release();
    return NDT_OK;
  });
}

ndt_status prefer(ndt_device*, const ndt_node* node, ndt_tensor_type* inputs,
                  ndt_tensor_type* outputs) {
  return guarded("prefer", [&] {
    with_op(kName, node, find_op, [&](const Op& op, const Node& view) {
      if (!op.prefer) unsupported("it has no preference");
      op.prefer(view, inputs, outputs);
    });
    return NDT_OK;
  });
}

ndt_status prepare(ndt_device* device, const ndt_node* node, ndt_prepared* out) {
  return prepare_op(kName, node, out, find_op, [&](const Op& op, const Node& view) {
    if (!device) invalid("null argument");
    return op.prepare(*device, view);
  });
}

const ndt_backend* backend() {
  static const ndt_backend table = [] {
    ndt_backend t = host_backend(kName);
    t.numerics = fixed_numerics().c_str();
    t.open = open;
    t.close = [](ndt_device* device) { delete device; };
    t.prepare = prepare;
    t.prefer = prefer;
    t.describe = [](ndt_device* device) { return device->description.c_str(); };
    t.device_numerics = [](ndt_device* device) { return device->numerics.c_str(); };
    return t;
  }();
  return &table;
}

}  // namespace
}  // namespace ndtrain::onednn

extern "C" __attribute__((visibility("default"))) const ndt_backend* ndt_backend_main(
    int32_t version, const ndt_host* host) {
  return ndtrain::plugin::enter(version, host, ndtrain::onednn::backend);
}
