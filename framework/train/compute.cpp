#include "framework/train/compute.h"

#include "framework/runtime/device_support.h"

namespace ndtrain {
namespace {

// Why the device is no faster in `t`; "" when it is.
std::string why_no_gain(DType t, const Device& device) {
  const std::string who = "the " + device.backend().name() + " backend ";
  // What the last resort has in 16 bits goes by way of f32.
  if (!device.fallback()) return who + "has no backward pass in " + std::string(name_of(t));
  constexpr int64_t kSide = 64;
  Graph g;
  const TensorType matrix{t, {kSide, kSide}};
  const ValueId x = g.add_input("x", matrix), dy = g.add_input("dy", matrix);
  g.set_outputs({g.add1("Gemm", {x, dy}, {{"transA", 1}})});
  const std::string why = why_no_kernel(device, g, g.nodes()[0]);
  return why.empty() ? "" : who + "has no fast products of it: " + why;
}

}  // namespace

TrainingCompute training_compute(DType asked, const Device& device) {
  if (asked == DType::kF32 || !device.shares_host_memory()) return {asked};
  const std::string why = why_no_gain(asked, device);
  if (why.empty()) return {asked};
  return {DType::kF32,
          "--compute " + std::string(name_of(asked)) + ": trained in f32, since " + why};
}

}  // namespace ndtrain
