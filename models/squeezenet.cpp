// SqueezeNet 1.1 (Iandola et al. 2016). Its classifier is a convolution.
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

using Value = Builder::Value;

Value fire(Builder& b, int place, const Value& x, int64_t squeeze, int64_t expand) {
  const std::string name = "features." + std::to_string(place);
  const auto conv = [&](const std::string& part, const Value& in, Conv c) {
    c.bias = true;
    return b.relu(b.conv(name + "." + part, in, c));
  };
  const Value s = conv("squeeze", x, {.out = squeeze});
  const Value narrow = conv("expand1x1", s, {.out = expand});
  const Value wide = conv("expand3x3", s, {.out = expand, .kernel = 3, .pad = 1});
  return b.named(b.concat({narrow, wide}), name);
}

}  // namespace

Model squeezenet1_1(const BuildOptions& o) {
  Builder b(o.seed, o.img_size, {.conv = kaiming_uniform(), .bias = constant(0)});
  const Pool pool{.kernel = 3, .stride = 2, .ceil_mode = true};
  Value x =
      b.relu(b.conv("features.0", b.input(), {.out = 64, .kernel = 3, .stride = 2, .bias = true}));
  x = fire(b, 3, b.max_pool(x, pool), 16, 64);
  x = fire(b, 4, x, 16, 64);
  x = fire(b, 6, b.max_pool(x, pool), 32, 128);
  x = fire(b, 7, x, 32, 128);
  x = fire(b, 9, b.max_pool(x, pool), 48, 192);
  x = fire(b, 10, x, 48, 192);
  x = fire(b, 11, x, 64, 256);
  x = fire(b, 12, x, 64, 256);
  const Conv classifier{.out = o.classes, .bias = true, .init = normal(0.01)};
  x = b.relu(b.conv("classifier.1", b.dropout(x, 0.5), classifier));
  return b.finish(b.flatten(b.global_average_pool(x)));
}

}  // namespace ndtrain::models
