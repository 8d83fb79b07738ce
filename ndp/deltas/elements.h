// Elements of a tensor as numbers, and their differences in the order in which they compress well:
// first all lowest bytes, then all second ones (planes). A small step up and a small step down both
// leave the upper planes zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ndp/deltas/delta_format.h"

namespace ndtrain::ndp::delta_format {

// `element` is 1, 2, 4 or 8 bytes, little-endian, of which every length here is a multiple. Where
// `base` ends before the tensor does it counts as zeros; a base that is longer is cut.

// Planes of the differences of `tensor` from `base`, each packed.
std::string pack_planes(std::string_view tensor, std::string_view base, uint32_t element);
void unpack_planes(ByteReader& from, std::string_view base, uint32_t element, char* to,
                   size_t bytes);

// Which elements differ from those of a base of the same length, and what they are. Nothing when
// they are too many for that to be of use.
std::optional<std::string> pack_sparse(std::string_view tensor, std::string_view base,
                                       uint32_t element);
void unpack_sparse(ByteReader& from, std::string_view base, uint32_t element, char* to,
                   size_t bytes);

}  // namespace ndtrain::ndp::delta_format
