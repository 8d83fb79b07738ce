#include "framework/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace ndtrain {

Schedule::Kind schedule_named(std::string_view name) {
  if (name == "constant") return Schedule::Kind::kConstant;
  if (name == "step") return Schedule::Kind::kStep;
  if (name == "cosine") return Schedule::Kind::kCosine;
  if (name == "ndpipe") return Schedule::Kind::kNdpipe;
  throw Error("unknown schedule '", name, "'; there are constant, step, cosine and ndpipe");
}

double learning_rate(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  const int64_t done = step - s.warmup_steps;
  const int64_t length = std::max<int64_t>(s.total_steps - s.warmup_steps, 1);
  switch (s.kind) {
    case Schedule::Kind::kConstant:
      return s.lr;
    case Schedule::Kind::kStep: {
      const int64_t every = s.step_every > 0 ? s.step_every : std::max<int64_t>(length / 3, 1);
      return s.lr * std::pow(s.step_factor, static_cast<double>(done / every));
    }
    case Schedule::Kind::kCosine: {
      const double t = std::min(1.0, static_cast<double>(done) / static_cast<double>(length));
      const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * t));
      return s.lr * (s.final_fraction + (1 - s.final_fraction) * cosine);
    }
    case Schedule::Kind::kNdpipe: {
      constexpr std::array<double, 5> kPart = {1, 0.8, 0.5, 0.3, 0.1};
      const auto part = static_cast<size_t>(std::clamp<int64_t>(done * 5 / length, 0, 4));
      return s.lr * kPart[part];
    }
  }
  throw Error("unknown schedule");
}

}  // namespace ndtrain
