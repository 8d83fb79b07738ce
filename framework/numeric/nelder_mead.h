// Nelder and Mead's simplex (1965): a local minimum without derivatives, the same at every call.
#pragma once

#include "framework/numeric/minimum.h"

namespace ndtrain {

struct NelderMeadOptions {
  // Coefficients by the number of coordinates, from two up (Gao and Han, "Implementing the
  // Nelder-Mead simplex algorithm with adaptive parameters", 2012).
  bool adaptive = true;
  int evaluations = 2000;    // at most, but for those of a step that is begun
  double tolerance = 1e-10;  // of the simplex, in parts of the bounds, and of its values
};

// Points outside the bounds are moved onto them; a value that is not a number counts as infinite.
// Throws Error where validate() refuses the bounds or `start` has another number of coordinates.
Minimum nelder_mead(const Objective& f, std::span<const double> start, const Bounds& bounds,
                    const NelderMeadOptions& options = {});

}  // namespace ndtrain
