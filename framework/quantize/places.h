// Where a model's int8 form has bytes: which convolutions and products of matrices compute on them,
// and which values are held in them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain {

struct QuantizedPlaces {
  // Conv nodes with constant f32 weights, numbers in Model::nodes.
  std::vector<size_t> convolutions;
  // MatMul and Gemm nodes by a constant f32 matrix, likewise.
  std::vector<size_t> products;
  // Values held in bytes -> the name of their group. A group has one scale: what only moves or
  // chooses numbers then works on the bytes.
  std::map<std::string, std::string> group_of;
  // Groups none of whose values is ever negative: u8; the others are i8.
  std::set<std::string> never_negative;
  // Groups that products alone read: u8 with a zero point, so that what is off centre has all
  // steps.
  std::set<std::string> off_centre;
};

// A product of fewer multiplications to a photo gains less than the pass that makes bytes takes.
inline constexpr int64_t kLeastMultiplications = int64_t{1} << 21;

// Of what `until` is computed from. What has its output in `keep` stays f32. A residual
// addition and an activation behind a convolution belong to it, as in kConvolutions. The
// model's batch normalisation is folded already.
QuantizedPlaces quantized_places(const Model& model, const std::vector<std::string>& until,
                                 const std::set<std::string>& keep);

}  // namespace ndtrain
