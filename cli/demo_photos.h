#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ndp/photos/image.h"

namespace ndtrain::cli {
using namespace ndp;

// Small pictures of simple shapes, drawn so that telling them apart needs more than a colour or a
// place: size, turn, place and colours vary, the ground is noisy, and a stroke crosses the picture.
enum class Look { kDay, kDusk };  // dark shapes on light ground; black ones on dim, noisy ground

std::span<const std::string_view> demo_classes();

// A function of its arguments alone.
Image draw_demo_photo(int shape, Look look, uint64_t seed);

}  // namespace ndtrain::cli
