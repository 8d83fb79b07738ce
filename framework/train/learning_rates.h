// The learning rate of each parameter, where they are not all the same.
#pragma once

#include <map>
#include <span>
#include <string>

#include "framework/graph/model.h"
#include "framework/train/optimizer.h"

namespace ndtrain {

// What the rate of each of the `trainable` parameters of `m` is multiplied by, where
// `config.has_rates()`: layer_rates() (head.h) of its layer, times what the last pattern of
// `config.lr_of` says that fits its name. Throws Error for a pattern that fits none of them, with
// names that are like it.
std::map<std::string, double> learning_rates(const Model& m, std::span<const std::string> trainable,
                                             const OptimizerConfig& config);

// So that `optimizer`, which trains all or some of these parameters, goes by its own config's.
void set_learning_rates(Optimizer& optimizer, const Model& m,
                        std::span<const std::string> trainable);

}  // namespace ndtrain
