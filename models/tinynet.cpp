// A small convolutional network for small pictures: three convolutions with normalisation, 24 346
// parameters for ten classes. Trains on a CPU in seconds.
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {

Model tinynet(const BuildOptions& o) {
  Builder b(o.seed, o.img_size, {.conv = kaiming_normal_fan_out()});
  auto x = b.input();
  int layer = 1;
  for (const int64_t out : {16, 32, 64}) {
    const std::string n = std::to_string(layer++);
    x = b.conv("conv" + n, x, {.out = out, .kernel = 3, .pad = 1});
    x = b.max_pool(b.relu(b.batch_norm("bn" + n, x)), {.kernel = 2, .stride = 2});
    x = b.named(x, "layer" + n);
  }
  return b.finish(b.linear("fc", b.flatten(b.global_average_pool(x)), o.classes));
}

}  // namespace ndtrain::models
