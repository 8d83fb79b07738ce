// Architectures by name, built from code with fresh weights.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "framework/graph/model.h"
#include "models/architectures.h"

namespace ndtrain {

struct ZooEntry {
  std::string_view name;     // torchvision's, where it has the architecture
  std::string_view summary;  // one line
  int64_t img_size;          // what it was designed for
  int64_t least_img_size;    // below it a window no longer fits
};

std::span<const ZooEntry> zoo();
const ZooEntry* find_in_zoo(std::string_view name);  // null if there is none

struct ZooOptions {
  int64_t classes = 1000;
  std::optional<int64_t> img_size = std::nullopt;  // default: the entry's
  uint64_t seed = 0;
  models::Vit vit = {};  // of "vit"
};

// Equal arguments give the same content_id. Throws Error naming the option that does not fit.
Model build_model(std::string_view name, const ZooOptions& options = {});

// Elements of the weights: float initialisers without scalars and without the running statistics of
// batch normalisation. What PyTorch counts as parameters.
int64_t parameter_count(const Model& m);

}  // namespace ndtrain
