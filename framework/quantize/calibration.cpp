#include "framework/quantize/calibration.h"

#include <algorithm>
#include <cmath>

#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"

namespace ndtrain {
namespace {

// Sums of squares until all are there.
void add_lanes(std::span<const float> values, size_t lanes, Activation& a) {
  a.lane_largest.resize(lanes);
  a.lane_square.resize(lanes);
  for (size_t row = 0; row < values.size(); row += lanes) {
    for (size_t k = 0; k < lanes; ++k) {
      const auto v = static_cast<double>(values[row + k]);
      if (!std::isfinite(v)) continue;
      a.lowest = std::min(a.lowest, v);
      a.highest = std::max(a.highest, v);
      a.lane_largest[k] = std::max(a.lane_largest[k], std::abs(v));
      a.lane_square[k] += v * v;
    }
  }
}

void add(const Tensor& t, Activation& a) {
  const std::span<const float> values = t.as<float>();
  a.magnitudes.add(values);
  const Shape& s = t.shape();
  if (s.rank() < 2 || s.count() == 0) return;
  add_lanes(values, static_cast<size_t>(s[-1]), a);
  const auto channels = static_cast<size_t>(s[1]),
             plane = static_cast<size_t>(s.count(2, s.rank()));
  a.channel_mean.resize(channels);
  for (size_t i = 0; i < values.size(); i += plane) {
    double sum = 0;
    for (size_t k = 0; k < plane; ++k) sum += static_cast<double>(values[i + k]);
    a.channel_mean[i / plane % channels] += sum;
  }
}

}  // namespace

std::map<std::string, Activation> watch_activations(const Model& model,
                                                    std::span<const std::string> values,
                                                    std::span<const Tensor> batches,
                                                    const Device& device) {
  if (batches.empty()) throw Error("there are no photos to calibrate on");
  Model watched = model;
  watched.outputs.assign(values.begin(), values.end());
  watched.metadata.clear();
  const Graph g = optimize_for_inference(bind(watched, batches[0].shape()[0]));
  const Plan plan(g, device);
  Executor executor(plan);
  std::map<std::string, Activation> found;
  for (const Tensor& batch : batches) {
    const std::vector<Tensor> outputs = executor.run({&batch, 1});
    for (size_t k = 0; k < outputs.size(); ++k) add(outputs[k], found[values[k]]);
  }
  for (auto& [name, a] : found) {
    if (a.magnitudes.count() == 0) throw Error("'", name, "' is not finite on the photos");
    const double per_channel = static_cast<double>(a.magnitudes.count()) /
                               static_cast<double>(std::max<size_t>(1, a.channel_mean.size()));
    for (double& m : a.channel_mean) m /= per_channel;
    for (double& m : a.lane_square) {
      m /= static_cast<double>(a.magnitudes.count()) / static_cast<double>(a.lane_square.size());
    }
  }
  return found;
}

}  // namespace ndtrain
