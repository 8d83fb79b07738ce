// The architectures, one function each. zoo.h finds them by name.
#pragma once

#include "framework/graph/model.h"

namespace ndtrain::models {

// The mlp is four times as wide as the tokens.
struct Vit {
  int64_t patch = 16, depth = 4, width = 192, heads = 3;
};

struct BuildOptions {
  int64_t classes = 1000;
  int64_t img_size = 224;  // side of the square input
  uint64_t seed = 0;
  Vit vit = {};  // of "vit"
};

Model alexnet(const BuildOptions& o);
Model inception_v3(const BuildOptions& o);
Model mobilenet_v2(const BuildOptions& o);
Model resnet18(const BuildOptions& o);
Model resnet50(const BuildOptions& o);
Model resnext101_32x4d(const BuildOptions& o);
Model squeezenet1_1(const BuildOptions& o);
Model tinynet(const BuildOptions& o);
Model vit(const BuildOptions& o);
Model vit_b_16(const BuildOptions& o);

}  // namespace ndtrain::models
