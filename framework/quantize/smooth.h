// Outliers of a few channels moved out of layer normalisation into the products behind it (Xiao et
// al. 2023, "SmoothQuant"): the same function, with activations that 8 bits hold better.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/quantize/calibration.h"
#include "framework/quantize/places.h"

namespace ndtrain {

// Divides channel j of a LayerNormalization whose readers are products of `places` by
// s[j] = (largest |x[j]|)^a / (largest |w[j]|)^(1 - a) and multiplies row j of their matrices by
// it, with the a of least expected error among a few and none at all: of every LayerNormalization
// its own. Names and nodes stay, and so does what `until` holds. Gives how many were changed.
int64_t smooth(Model& model, const std::vector<std::string>& until, const QuantizedPlaces& places,
               const std::map<std::string, Activation>& seen);

}  // namespace ndtrain
