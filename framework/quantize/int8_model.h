// A model's int8 form as ordinary ONNX: QuantizeLinear and DequantizeLinear around what is to
// compute on bytes (QDQ), so that other runtimes run it too. The rewrite kQuantized makes bytes of
// it.
#pragma once

#include "framework/quantize/calibration.h"
#include "framework/quantize/places.h"

namespace ndtrain {

// Weights are i8, symmetric, with a scale per output channel or column; activations u8 or i8 with
// zero point 0, or u8 with one where products alone read them or most of their range is positive;
// biases of convolutions i32 in units
// of both scales, corrected by what rounding the weights does to the mean of the output. `model`
// and `places` as quantized_places() had and gave them; `seen` has the activations of all places.
// Outputs and held values keep their names.
Model int8_model(const Model& model, const QuantizedPlaces& places,
                 const std::map<std::string, Activation>& seen);

}  // namespace ndtrain
