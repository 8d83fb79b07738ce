// What a training costs its ranks, measured before it begins: what forecasts of ways to exchange
// gradients go by (framework/sparse/plan/method_forecast.h).
#pragma once

#include <functional>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/pipeline/planner/model_profile.h"
#include "framework/runtime/backend.h"
#include "framework/sparse/plan/method_forecast.h"
#include "framework/train/trainer.h"

namespace ndtrain::ndp {

// Of the profile's mini-batch each of `ranks` does an equal part; loading is of the first layer.
// Without tensors, collectives and a rank's work.
TrainingCosts costs_of(const ModelProfile& profile, int ranks);

// The shapes of these parameters of the model, in their order. Throws Error where it has not got
// one.
std::vector<Shape> shapes_of(const Model& model, std::span<const std::string> parameters);

// Steps of a rank's rows of noise are timed on this device, for about three seconds, and so is what
// exchanging takes on a processor. `config` is of all ranks; loading of photos is not in it.
// Without collectives. `on_step` as ProfileOptions has it.
TrainingCosts measure_training_costs(const Model& model, std::span<const std::string> trainable,
                                     const TrainerConfig& config, int ranks, const Device& device,
                                     Clock& clock, const std::function<bool()>& go_on = {});

}  // namespace ndtrain::ndp
