// AlexNet in the form of Krizhevsky 2014 ("One weird trick"), which is torchvision's.
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

constexpr int64_t kGrid = 6;  // what the classifier sees of the picture

// The mean over a grid of kGrid x kGrid cells.
Builder::Value pool_to_grid(Builder& b, const Builder::Value& x) {
  const int64_t side = b.shape(x)[2];
  if (side == kGrid) return x;
  if (side % kGrid != 0) {
    throw Error("alexnet: an input of ", b.shape(b.input())[2], " pixels leaves ", side, " x ",
                side, " cells, which do not pool to ", kGrid, " x ", kGrid, "; 224 does, and 416");
  }
  const int64_t cell = side / kGrid;
  return b.average_pool(x, {.kernel = cell, .stride = cell});
}

}  // namespace

Model alexnet(const BuildOptions& o) {
  Builder b(o.seed, o.img_size);
  const auto conv = [&](const std::string& name, const Builder::Value& x, Conv c) {
    c.bias = true;
    return b.relu(b.conv("features." + name, x, c));
  };
  const Pool pool{.kernel = 3, .stride = 2};
  auto x = conv("0", b.input(), {.out = 64, .kernel = 11, .stride = 4, .pad = 2});
  x = conv("3", b.max_pool(x, pool), {.out = 192, .kernel = 5, .pad = 2});
  x = conv("6", b.max_pool(x, pool), {.out = 384, .kernel = 3, .pad = 1});
  x = conv("8", x, {.out = 256, .kernel = 3, .pad = 1});
  x = conv("10", x, {.out = 256, .kernel = 3, .pad = 1});
  x = b.named(b.max_pool(x, pool), "features");
  x = b.dropout(b.flatten(pool_to_grid(b, x)), 0.5);
  x = b.dropout(b.relu(b.linear("classifier.1", x, 4096)), 0.5);
  x = b.relu(b.linear("classifier.4", x, 4096));
  return b.finish(b.linear("classifier.6", x, o.classes));
}

}  // namespace ndtrain::models
