// DiLoCo's outer optimizer (Douillard et al., "DiLoCo: Distributed Low-Communication Training of
// Language Models", arXiv:2311.08105): SGD with Nesterov's momentum, as PyTorch has it.
#pragma once

#include <span>

namespace ndtrain {

// v = mu v + g; x -= lr (g + mu v), in f32. All of one length; with mu = 0 there need be no
// `velocity`.
void outer_step(std::span<const float> gradient, double lr, double momentum,
                std::span<float> velocity, std::span<float> values);

}  // namespace ndtrain
