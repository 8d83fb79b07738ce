// Drawn photos on which the numerics of several machines are compared, from the file to the
// features.
#pragma once

#include <string>
#include <vector>

namespace ndtrain::ndp {

// `n` JPEG files: smooth light, edges, textures and noise, no two alike. The same ones every time.
std::vector<std::string> numerics_sample(size_t n);

}  // namespace ndtrain::ndp
