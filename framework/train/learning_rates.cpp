#include "framework/train/learning_rates.h"

#include "framework/train/head.h"
#include "framework/train/name_pattern.h"

namespace ndtrain {

std::map<std::string, double> learning_rates(const Model& m, std::span<const std::string> trainable,
                                             const OptimizerConfig& config) {
  const std::map<std::string, double> of_layers = layer_rates(m, config.layer_decay);
  const std::vector<std::optional<double>> of_names =
      numbers_of("learning rate", trainable, config.lr_of);
  std::map<std::string, double> rates;
  for (size_t i = 0; i < trainable.size(); ++i) {
    const auto layer = of_layers.find(trainable[i]);
    rates[trainable[i]] = (layer == of_layers.end() ? 1 : layer->second) * of_names[i].value_or(1);
  }
  return rates;
}

void set_learning_rates(Optimizer& optimizer, const Model& m,
                        std::span<const std::string> trainable) {
  const OptimizerConfig& config = optimizer.config();
  if (config.has_rates()) optimizer.scale_rates(learning_rates(m, trainable, config));
}

}  // namespace ndtrain
