// MobileNetV2 (Sandler et al. 2018).
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

using Value = Builder::Value;

Value conv_norm(Builder& b, const std::string& conv, const std::string& norm, const Value& x,
                const Conv& c) {
  return b.batch_norm(norm, b.conv(conv, x, c));
}

// torchvision's Conv2dNormActivation: name.0 is the convolution, name.1 its normalisation.
Value conv_norm_relu6(Builder& b, const std::string& name, const Value& x, const Conv& c) {
  return b.relu6(conv_norm(b, name + ".0", name + ".1", x, c));
}

Value inverted_residual(Builder& b, const std::string& name, const Value& x, int64_t expansion,
                        int64_t out, int64_t stride) {
  const int64_t in = b.shape(x)[1], hidden = in * expansion;
  int part = 0;
  const auto next = [&] { return name + ".conv." + std::to_string(part++); };
  Value y = x;
  if (expansion != 1) y = conv_norm_relu6(b, next(), y, {.out = hidden});
  y = conv_norm_relu6(b, next(), y,
                      {.out = hidden, .kernel = 3, .stride = stride, .pad = 1, .groups = hidden});
  const std::string conv = next(), norm = next();
  y = conv_norm(b, conv, norm, y, {.out = out});
  return stride == 1 && in == out ? b.named(b.add(x, y), name) : y;
}

}  // namespace

Model mobilenet_v2(const BuildOptions& o) {
  struct Stage {
    int64_t expansion, out, blocks, stride;
  };
  Builder b(o.seed, o.img_size,
            {.conv = kaiming_normal_fan_out(), .linear = normal(0.01), .bias = constant(0)});
  Value x =
      conv_norm_relu6(b, "features.0", b.input(), {.out = 32, .kernel = 3, .stride = 2, .pad = 1});
  int n = 1;
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int64_t i = 0; i < s.blocks; ++i) {
      const std::string name = "features." + std::to_string(n++);
      x = inverted_residual(b, name, x, s.expansion, s.out, i == 0 ? s.stride : 1);
    }
  }
  x = b.named(conv_norm_relu6(b, "features.18", x, {.out = 1280}), "features");
  x = b.flatten(b.global_average_pool(x));
  return b.finish(b.linear("classifier.1", b.dropout(x, 0.2), o.classes));
}

}  // namespace ndtrain::models
