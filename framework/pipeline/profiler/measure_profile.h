// What the nodes of a model cost on this device: training steps are run as a training runs them,
// and each kernel is timed. What is timed is the step with its fused kernels, so that the nodes
// add up to it; how a fused kernel's seconds are shared out node_seconds.h says. Parameters stay as
// they are.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/graph/model.h"
#include "framework/pipeline/planner/model_profile.h"
#include "framework/train/dataset.h"
#include "framework/train/optimizer.h"

namespace ndtrain {

struct ProfileOptions {
  std::string model;   // its name in the profile
  int64_t batch = 64;  // rows of a step
  int steps = 100;     // that are counted; one before them is not
  DType compute = DType::kF32;
  OptimizerConfig optimizer = {};
  bool load = false;  // fetching rows is loading them; else loading is said to take nothing
  uint64_t seed = 0;
  // After each step that is counted; false: it is the last.
  std::function<bool(int done)> on_step = {};
};

// The nodes are those of step_nodes(), behind the inputs of the model. A gradient of what a node
// reads is what earlier nodes wait for, with sums over several readers; the rest of its backward
// pass is its parameters'. A node's workspace is the largest of its kernels' and, beside it, the
// gradients that its backward pass reads and makes. The peak is what is planned: values, packed
// constants apart, parameters with a gradient and moments, running statistics, inputs. Copies to
// the device take nothing where it shares the host's memory. `rows` are used over and over, from
// the first on; there is one at least. What is fixed of a node's time and workspace is what a
// straight line through this batch and an eighth of it, of two rows at least, has for none; nothing
// where they are no fewer, or the caller has ended it. A half and a quarter of the batch are run
// once: workspaces of these are on the line or below it. Throws Error: no steps, or rows; what
// make_step_graph() refuses; what validate() does.
ModelProfile measure_profile(const Model& model, std::span<const std::string> trainable,
                             const Device& device, Dataset& rows, const ProfileOptions& options,
                             Clock& clock);

}  // namespace ndtrain
