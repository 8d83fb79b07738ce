#include "framework/numeric/minimum.h"

#include <cmath>

#include "framework/core/error.h"

namespace ndtrain {

void validate(const Bounds& bounds) {
  if (bounds.low.empty() || bounds.low.size() != bounds.high.size()) {
    throw Error("bounds: ", bounds.low.size(), " low and ", bounds.high.size(), " high ones");
  }
  for (size_t i = 0; i < bounds.low.size(); ++i) {
    if (std::isfinite(bounds.low[i]) && std::isfinite(bounds.high[i]) &&
        bounds.low[i] < bounds.high[i]) {
      continue;
    }
    throw Error("bounds: coordinate ", i, " is from ", bounds.low[i], " to ", bounds.high[i]);
  }
}

}  // namespace ndtrain
