#include "framework/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "framework/core/error.h"

namespace ndtrain {

Schedule::Kind schedule_named(std::string_view name) {
  std::string known;
  for (const auto& [kind, its_name] : kSchedules) {
    if (its_name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(its_name);
  }
  throw Error("unknown schedule '", name, "'; there are ", known);
}

bool follows_length(Schedule::Kind kind) {
  return kind != Schedule::Kind::kConstant && kind != Schedule::Kind::kExponential;
}

double learning_rate(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) {
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  }
  const int64_t done = step - s.warmup_steps;
  const int64_t length = std::max<int64_t>(s.total_steps - s.warmup_steps, 1);
  const double t = std::min(1.0, static_cast<double>(done) / static_cast<double>(length));
  switch (s.kind) {
    case Schedule::Kind::kConstant:
      return s.lr;
    case Schedule::Kind::kStep: {
      const int64_t every = s.step_every > 0 ? s.step_every : std::max<int64_t>(length / 3, 1);
      return s.lr * std::pow(s.step_factor, static_cast<double>(done / every));
    }
    case Schedule::Kind::kCosine: {
      const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * t));
      return s.lr * (s.final_fraction + (1 - s.final_fraction) * cosine);
    }
    case Schedule::Kind::kPolynomial:
      return s.lr * (1 - t) * (1 - t);
    case Schedule::Kind::kExponential:
      return s.lr *
             std::pow(0.97, static_cast<double>(done) /
                                static_cast<double>(std::max<int64_t>(s.steps_per_epoch, 1)));
    case Schedule::Kind::kNdpipe: {
      constexpr std::array<double, 5> kPart = {1, 0.8, 0.5, 0.3, 0.1};
      const auto part = static_cast<size_t>(std::clamp<int64_t>(done * 5 / length, 0, 4));
      return s.lr * kPart[part];
    }
  }
  throw Error("unknown schedule");
}

}  // namespace ndtrain
