#pragma once

#include <cstdint>
#include <string_view>

namespace ndtrain {

struct Schedule {
  enum class Kind { kConstant, kStep, kCosine, kNdpipe };
  Kind kind = Kind::kConstant;
  double lr = 1e-3;
  int64_t warmup_steps = 0;     // linear from 0
  int64_t total_steps = 1;      // of the whole training
  int64_t step_every = 0;       // kStep: in steps; 0: a third of the training
  double step_factor = 0.1;     // kStep
  double final_fraction = 0.0;  // kCosine: lr * this at the end
};

Schedule::Kind schedule_named(
    std::string_view name);  // constant, step, cosine, ndpipe; throws Error

// The rate for step 0, 1, …. kNdpipe falls in five equal parts of the training to 1, .8, .5, .3 and
// .1 of lr: with lr = .015 the recipe of NDPipe (ASPLOS'24): .015 .012 .0075 .0045 .0015.
double learning_rate(const Schedule& s, int64_t step);

}  // namespace ndtrain
