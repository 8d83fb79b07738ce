// What the planner puts into stages.
#pragma once

#include <string>
#include <vector>

#include "framework/pipeline/planner/model_profile.h"

namespace ndtrain {

// A profile without its inputs, in the order of execution.
struct ComputedNodes {
  std::vector<NodeProfile> nodes;  // they read each other
  std::vector<std::vector<std::string>>
      ids;  // of the profile's nodes that each stands for, in order
  double copy_s = 0, load_s = 0;
};

// With `compress_branches` there are fewer: behind a node that several read, nodes one after the
// other that read one and are read by one are merged, and with them the one that ends them. Times,
// parameters and saved values are added up; what they make is what the last one makes.
ComputedNodes computed_nodes(const ModelProfile& profile, bool compress_branches);

}  // namespace ndtrain
