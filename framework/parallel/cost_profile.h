// What a step of one network costs on one link: the times of its layers and of the collectives.
// Schedules are made from it and the simulator plays them; a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/train/parameter_range.h"

namespace ndtrain {

struct CostProfile {
  static constexpr int64_t kElementBytes = 4;  // f32

  // A parameter, or several that become ready together. What has no parameters counts with the
  // layer in front of it in the forward pass, and with the one whose gradient follows in the
  // backward pass.
  struct Layer {
    int64_t elements = 0;  // of the flat space, with padding
    double forward_s = 0, backward_s = 0;
  };
  struct Collective {
    double alpha_s = 0, beta_s_per_byte = 0;
    double bytes_s(int64_t elements) const {
      return beta_s_per_byte * static_cast<double>(elements * kElementBytes);
    }
    double seconds(int64_t elements) const { return alpha_s + bytes_s(elements); }
  };

  std::string source;  // where the numbers are from: "measured here", "published with …"
  int ranks = 1;
  // In forward order. Gradients are complete in the opposite order, which is that of the flat
  // space: the last layer begins at 0.
  std::vector<Layer> layers;
  Collective reduce_scatter, all_gather, all_reduce, reduce, broadcast;
  double optimizer_s_per_element = 0;

  int64_t parameter_count() const;
  double backward_s() const;   // of all layers
  double computing_s() const;  // of a step: forward, backward and update
};

// Throws Error naming the member: layers without any element, a time that is negative or not
// finite, no ranks.
void validate(const CostProfile& costs);

// In forward order, so that the last one begins at 0.
std::vector<ParameterRange> layer_ranges(const CostProfile& costs);

}  // namespace ndtrain
