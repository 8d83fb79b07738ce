// A small job whose times can be computed by hand.
#pragma once

#include "tuner/plan/plan_inputs.h"

namespace ndtrain::testing_plan {
using namespace tuner;

// A link on which sending n bytes of payload takes n / 1000 seconds, headers included.
inline constexpr double kThousandBytesPerSecond = 1050;
inline constexpr double kNoLimit = 1e18;

// 1 s per photo on a store core, 1000 bytes of features, nothing else costs anything.
inline PlanInputs one_second_photos(double photos) {
  PlanInputs in;
  in.costs.photo = {.bytes = 2000, .prepare_s = 0.25};
  in.costs.cuts = {{.name = "features", .feature_bytes = 1000, .extract_s = 0.75}};
  in.photos = photos;
  in.val_split = 0;
  in.epochs = 1;
  in.bandwidth = kNoLimit;
  return in;
}

}  // namespace ndtrain::testing_plan
