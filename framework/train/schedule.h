#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace ndtrain {

struct Schedule {
  enum class Kind { kConstant, kStep, kCosine, kPolynomial, kExponential, kNdpipe };
  Kind kind = Kind::kConstant;
  double lr = 1e-3;
  int64_t warmup_steps = 0;     // linear from 0
  int64_t total_steps = 1;      // of the whole training
  int64_t steps_per_epoch = 1;  // kExponential
  int64_t step_every = 0;       // kStep: in steps; 0: a third of the training
  double step_factor = 0.1;     // kStep
  double final_fraction = 0.0;  // kCosine: lr * this at the end
};

inline constexpr std::array<std::pair<Schedule::Kind, std::string_view>, 6> kSchedules = {
    {{Schedule::Kind::kConstant, "constant"},
     {Schedule::Kind::kStep, "step"},
     {Schedule::Kind::kCosine, "cosine"},
     {Schedule::Kind::kPolynomial, "polynomial"},
     {Schedule::Kind::kExponential, "exponential"},
     {Schedule::Kind::kNdpipe, "ndpipe"}}};

Schedule::Kind schedule_named(std::string_view name);  // throws Error

// Whether the rate of a step depends on how many there are.
bool follows_length(Schedule::Kind kind);

// The rate for step 0, 1, …. After warm-up, with t the part of the steps that is done:
//   kPolynomial   lr (1 - t)^2
//   kExponential  lr .97^e, e the epochs that are done and the part of one
//   kNdpipe       falls in five equal parts to 1, .8, .5, .3 and .1 of lr: with lr = .015 the
//                 recipe of NDPipe (ASPLOS'24): .015 .012 .0075 .0045 .0015
double learning_rate(const Schedule& s, int64_t step);

}  // namespace ndtrain
