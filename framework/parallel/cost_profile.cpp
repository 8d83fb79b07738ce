#include "framework/parallel/cost_profile.h"

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

void check_cost(const std::string& name, double value) {
  if (!std::isfinite(value) || value < 0) {
    throw Error("cost profile: ", name, " is ", value, ", which is not a number from 0 up");
  }
}

void check_collective(const std::string& name, const CostProfile::Collective& c) {
  check_cost(name + "/alpha_s", c.alpha_s);
  check_cost(name + "/beta_s_per_byte", c.beta_s_per_byte);
}

}  // namespace

int64_t CostProfile::parameter_count() const {
  int64_t count = 0;
  for (const Layer& l : layers) count += l.elements;
  return count;
}

double CostProfile::backward_s() const {
  double sum = 0;
  for (const Layer& l : layers) sum += l.backward_s;
  return sum;
}

double CostProfile::computing_s() const {
  double sum = backward_s();
  for (const Layer& l : layers) sum += l.forward_s;
  return sum + optimizer_s_per_element * static_cast<double>(parameter_count());
}

void validate(const CostProfile& costs) {
  if (costs.ranks < 1) throw Error("cost profile: there are ", costs.ranks, " ranks");
  int64_t left = limits::kElements;
  for (size_t l = 0; l < costs.layers.size(); ++l) {
    const CostProfile::Layer& layer = costs.layers[l];
    const std::string name = "layers/" + std::to_string(l);
    if (layer.elements < 0 || layer.elements > left) {
      throw Error("cost profile: ", name, " has ", layer.elements, " elements; 0 to ", left,
                  " are possible");
    }
    left -= layer.elements;
    check_cost(name + "/forward_s", layer.forward_s);
    check_cost(name + "/backward_s", layer.backward_s);
  }
  if (costs.parameter_count() == 0) throw Error("cost profile: there are no elements");
  check_collective("reduce_scatter", costs.reduce_scatter);
  check_collective("all_gather", costs.all_gather);
  check_collective("all_reduce", costs.all_reduce);
  check_collective("reduce", costs.reduce);
  check_collective("broadcast", costs.broadcast);
  check_cost("optimizer_s_per_element", costs.optimizer_s_per_element);
}

std::vector<ParameterRange> layer_ranges(const CostProfile& costs) {
  std::vector<ParameterRange> ranges(costs.layers.size());
  int64_t at = 0;
  for (size_t l = ranges.size(); l-- > 0;) {
    ranges[l] = {at, at + costs.layers[l].elements};
    at = ranges[l].end;
  }
  return ranges;
}

}  // namespace ndtrain
