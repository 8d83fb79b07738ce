// What an optimizer's step is: which op takes it, what it keeps of a parameter, and the numbers
// that change from step to step.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

struct OptimizerConfig {
  enum class Kind { kSgd, kAdam, kAdamW, kRmsProp };
  Kind kind = Kind::kAdam;
  double momentum = 0.9;              // SGD, RMSprop
  double dampening = 0;               // SGD: the share of a gradient that its momentum leaves out
  bool nesterov = false;              // SGD
  double beta1 = 0.9, beta2 = 0.999;  // Adam, AdamW
  bool amsgrad = false;               // Adam, AdamW: divided by the largest second moment so far
  double alpha = 0.99;                // RMSprop
  bool centered = false;              // RMSprop: divided by the deviation from the mean gradient
  double epsilon = 1e-8;              // all but SGD
  double weight_decay = 0;
  // Earlier layers learn at lower rates (Clark et al., "ELECTRA", ICLR 2020; Bao et al., "BEiT",
  // ICLR 2022): each has this times the rate of the one behind it, see layer_rates(); 1: all alike.
  double layer_decay = 1;
  // Besides, what the rate of parameters is multiplied by whose names fit (name_pattern.h): the
  // last that fits counts, others have 1. See learning_rates().
  std::vector<std::pair<std::string, double>> lr_of = {};
  double clip_norm = 0;  // gradients are shortened to this norm (gradient_norm.h); 0: to none
  // An exponential moving average of the weights is kept, and this is how much of it stays at a
  // step; 0: none is. After step T it is the sum of d^(T-t) times the weights after step t, from 1
  // to T, divided by the sum of d^(T-t): as Adam corrects its means (Kingma and Ba, ICLR 2015), so
  // that the weights from before the first step have no part in it.
  double ema = 0;

  bool has_rates() const { return layer_decay != 1 || !lr_of.empty(); }  // not one for all
  void check() const;  // throws Error: what does not go together, and what is out of range
};

// sgd, adam, adamw, rmsprop; throws Error.
OptimizerConfig::Kind optimizer_named(std::string_view name);

// Hyper-parameters of one step, as the op takes them (framework/ops/optimizer.cpp). Taken when the
// step begins, so that an update that is applied later is still that step's.
struct HyperParameters {
  int64_t step = 0;           // from 1
  std::vector<float> values;  // the learning rate first
  float gradient_scale = 1;   // what clipping leaves of the gradients
};

// Of step number `step`, from 1, at this rate. gradient_scale is 1.
HyperParameters hyper_parameters(const OptimizerConfig& c, double lr, int64_t step);
TensorType hyper_type(const OptimizerConfig& c);  // of their values, as the op takes them

// What is kept of each element besides its value: "m", or "m" and "v" and so on; with an average of
// the weights, that is the last one.
std::vector<std::string> moment_names(const OptimizerConfig& c);
// The average of this parameter among the moments in a checkpoint.
std::string average_name(const std::string& parameter);

// The step of n elements. Inputs: values, gradients, moments…, hyper-parameters. Outputs: values,
// moments…. Each may lie where its input does.
Graph optimizer_graph(const OptimizerConfig& c, int64_t n);

}  // namespace ndtrain
