// Initial weights as torch.nn.init draws them: the same distributions, from counter-based streams.
#pragma once

#include <functional>

#include "framework/core/rng.h"
#include "framework/core/tensor.h"

namespace ndtrain::models {

// Makes an f32 weight [out, in, receptive field…]. Fan-in is in * field, fan-out is out * field.
using Init = std::function<Tensor(const Shape&, Rng)>;

Init constant(double value);
Init normal(double deviation);
Init uniform(double bound);  // [-bound, bound)
// Normal, redrawn until within ±2: the bound is absolute, as in trunc_normal_.
Init truncated_normal(double deviation);

Init kaiming_normal_fan_out();   // deviation sqrt(2 / fan-out): He et al. 2015, for Relu
Init kaiming_uniform();          // bound sqrt(6 / fan-in)
Init xavier_uniform();           // bound sqrt(6 / (fan-in + fan-out)): Glorot and Bengio 2010
Init fan_in_uniform();           // bound 1 / sqrt(fan-in): torch.nn.Linear's and Conv2d's own
Init fan_in_truncated_normal();  // deviation 1 / sqrt(fan-in)
int64_t fan_in(const Shape& weight);

}  // namespace ndtrain::models
