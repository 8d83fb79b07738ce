// What the nodes of a model cost on one device: what the planner plans from. A plain value; times
// are in seconds, of a mini-batch of `batch` rows, and so are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ndtrain {

// Over the steps that were measured. The planner takes the median.
struct NodeTime {
  double mean_s = 0, median_s = 0, deviation_s = 0;
  double fixed_s = 0;  // of the median what few rows take as well

  // What the median is of so much of the mini-batch.
  double of_share(double share) const { return fixed_s + (median_s - fixed_s) * share; }
  // A number of which no more is known.
  static NodeTime exactly(double seconds) { return {seconds, seconds, 0, 0}; }
  bool operator==(const NodeTime&) const = default;
};

struct NodeProfile {
  std::string id, description;
  // Backward, the gradient of what the node reads, and that of its parameters. Where a file does
  // not tell them apart all is with the first. Of an input they are the copy to the device, and
  // loading.
  NodeTime forward, input_gradient, weight_gradient;
  double activation_bytes = 0;  // of what it makes, as it travels
  // Tensor by tensor, where graph.txt has several of them, "[4.0; 8.0]"; else none.
  std::vector<double> activations = {};
  double saved_bytes = 0;  // of what it keeps for the backward pass
  double workspace_bytes = 0;
  double fixed_workspace_bytes = 0;  // of it what few rows take as well
  double parameter_bytes = 0;        // trained
  double frozen_bytes = 0;           // of parameters that are not
  std::vector<int> inputs;           // nodes, in the order in which it reads them
  std::optional<int> stage;          // of a plan

  // Where rows come from. No stage has it, and it counts as no node of a plan.
  bool is_input() const { return description.starts_with("Input"); }
  // Adds to what it reads, or works in place: what it makes takes no memory of its own.
  bool in_place() const;
  double workspace_of_share(double share) const {
    return fixed_workspace_bytes + (workspace_bytes - fixed_workspace_bytes) * share;
  }
  double backward_s() const { return backward_s(1); }
  double backward_s(double share) const {
    return input_gradient.of_share(share) + weight_gradient.of_share(share);
  }

  bool operator==(const NodeProfile&) const = default;
};

struct ModelProfile {
  std::string model;   // its file, or its digest; "" where nobody said
  std::string source;  // where the numbers are from
  int64_t batch = 0;   // 0: unknown
  std::vector<NodeProfile> nodes;
  double optimizer_s_per_byte = 0;   // of trained parameters
  double moment_bytes_per_byte = 0;  // of trained parameters, what the optimizer keeps
  double peak_bytes = 0;             // of one device that trains all of it; 0: unknown

  double copy_s() const;  // to the device, of a mini-batch
  double load_s() const;

  bool operator==(const ModelProfile&) const = default;
};

// Throws Error naming the node: an id that is empty or there twice, text that a line of a file
// cannot hold, a number that is negative or not finite, an input that is no node, nodes that wait
// for each other, nothing to be planned. `what` begins the message.
void validate(const ModelProfile& profile, const std::string& what);

// All nodes, each behind what it reads, else as they are in the profile. Of a valid profile.
std::vector<int> execution_order(const ModelProfile& profile);

// The same model with mini-batches of another size: all but parameters and what is fixed is in
// proportion.
ModelProfile with_minibatch_ratio(ModelProfile profile, double ratio);

}  // namespace ndtrain
