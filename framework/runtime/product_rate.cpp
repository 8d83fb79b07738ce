#include "framework/runtime/product_rate.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "framework/runtime/device_support.h"
#include "framework/runtime/executor.h"

namespace ndtrain {
namespace {

constexpr int64_t kProbeChannels = 512, kSide = 28;
constexpr double kSeconds = 0.3;

ValueId constant(Graph& g, double value, DType t) {
  return g.add_constant("", Tensor::from_doubles({t, {}}, std::vector<double>{value}));
}

Graph product(DType in, int64_t images) {
  Graph g;
  const bool bytes = size_of(in) == 1;
  const Shape x = {images, kProbeChannels, kSide, kSide},
              w = {kProbeChannels, kProbeChannels, 1, 1};
  std::vector<ValueId> inputs = {g.add_input("x", {bytes ? DType::kU8 : in, x})};
  if (bytes) {
    inputs.push_back(constant(g, 0.02, DType::kF32));
    inputs.push_back(constant(g, 0, DType::kU8));
    inputs.push_back(g.add_constant("w", Tensor({DType::kI8, w})));
    inputs.push_back(constant(g, 0.01, DType::kF32));
    inputs.push_back(constant(g, 0, DType::kI8));
    inputs.push_back(constant(g, 0.1, DType::kF32));
    inputs.push_back(constant(g, 0, DType::kU8));
  } else {
    inputs.push_back(g.add_param("w", Tensor({in, w})));
  }
  g.mark_output(g.add1(bytes ? "FusedQLinearConv" : "FusedConv", std::move(inputs)));
  return g;
}

}  // namespace

double product_rate(const Device& device, DType in) {
  const int64_t images = device.shares_host_memory() ? shared_threads().threads() : 64;
  const Graph g = product(in, images);
  const auto n = static_cast<double>(images * kProbeChannels * kProbeChannels * kSide * kSide);
  try {
    const Plan plan(g, device);
    Executor executor(plan);
    executor.set_profiling(true);
    const Tensor x(plan.type(plan.bindings()[0]));
    double best = std::numeric_limits<double>::infinity();
    const auto start = std::chrono::steady_clock::now();
    do {
      executor.run({&x, 1});
      for (const auto& t : executor.profile()) {
        if (t.op == g.nodes()[0].op) best = std::min(best, t.seconds);
      }
    } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
             kSeconds);
    return 2 * n / best;
  } catch (const Error&) {  // no such kernel
    return 0;
  }
}

std::string why_bytes_gain_nothing(const Device& device) {
  const std::string who = "the " + device.backend().name() + " backend ";
  if (!device.fallback()) return who + "has no faster arithmetic for bytes";
  const Graph g = product(DType::kU8, 1);
  if (has_layout_for(device, g, g.nodes()[0])) return "";
  std::string why = why_no_kernel(device, g, g.nodes()[0]);
  if (const size_t ports = why.rfind("): "); ports != std::string::npos)
    why = why.substr(ports + 3);
  return who + "has no products of bytes here: " + why;
}

}  // namespace ndtrain
