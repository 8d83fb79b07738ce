// Two training photos made one, and their labels alike: mixup (Zhang et al., arXiv:1710.09412) and
// CutMix (Yun et al., arXiv:1905.04899), as torchvision's v2.MixUp and v2.CutMix compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ndp/photos/augment.h"

namespace ndtrain::ndp {

// What a row of an epoch is made of.
struct Mix {
  int64_t other = 0;              // the row that it is mixed with
  double share = 1;               // of the label that the row itself keeps; the other has the rest
  std::optional<PixelBox> box{};  // CutMix: what is the other's; without, all is mixed
};

// Drawn for a row of an epoch: a function of these and the seed alone. The other row is any of
// `rows` rows with the same probability, and so is the way where both are asked for; `side` is
// of the network's input.
Mix drawn_mix(const Augmentation& a, uint64_t seed, int64_t epoch, int64_t row, int64_t rows,
              int side);

// From Beta(alpha, alpha), alpha > 0, by two uniform numbers from [0, 1): ½ + t / (2 sqrt(2 alpha +
// t²)) of a t of 2 alpha degrees of freedom, which is drawn as in Bailey, "Polar generation of
// random variates with the t-distribution", Mathematics of Computation 62 (1994).
double beta(double alpha, double u, double v);

// CutMix's: 1 - share of the square input, at (x, y), as far as it lies inside.
PixelBox cutmix_box(int side, double share, int x, int y);

// `to` is share of itself and the rest of `other`, in f32.
void mix_up(std::span<const float> other, double share, std::span<float> to);
// The box of an input of p.values() floats is that of the other.
void paste(const PixelBox& box, const Preprocess& p, const float* other, float* to);

}  // namespace ndtrain::ndp
