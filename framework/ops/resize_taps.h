// From which places along an axis, and with which weights, each place of a resized axis comes.
// Source: ONNX's Resize (opset 19) and its Python definition.
#pragma once

#include <string>
#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

// One axis that is resized.
struct ResizedAxis {
  int axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;                   // out / in, or what was asked for
  double roi_begin = 0, roi_end = 1;  // normalised: of tf_crop_and_resize
  bool changes = true;                // false: every place is its own
};

// A row of `taps` places and weights for each place of the output.
struct ResizeTaps {
  int64_t taps = 1;
  Ints from;
  std::vector<double> weights;
  std::vector<bool> outside;  // lies outside the crop: it is extrapolation_value
  bool any_outside = false;
};

// The axes of Resize's attributes. `scales` or `sizes` is empty, `roi` may be. Throws Error.
std::vector<ResizedAxis> resized_axes(const Attrs& a, const Shape& x,
                                      const std::vector<double>& roi,
                                      const std::vector<double>& scales, const Ints& sizes);
ResizeTaps resize_taps(const Attrs& a, const ResizedAxis& axis);

}  // namespace ndtrain
