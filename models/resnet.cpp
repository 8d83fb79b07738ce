// ResNet (He et al. 2016, stride on the 3x3 convolution as in torchvision) and ResNeXt (Xie et al.
// 2017).
#include "models/architectures.h"
#include "models/builder.h"

namespace ndtrain::models {
namespace {

struct ResNet {
  bool bottleneck;
  std::vector<int64_t> blocks;
  int64_t groups = 1, width_per_group = 64;
};

class ResNetBuilder {
 public:
  ResNetBuilder(const ResNet& r, const BuildOptions& o)
      : r_(r), b_(o.seed, o.img_size, {.conv = kaiming_normal_fan_out()}), classes_(o.classes) {}

  Model build() {
    Value x =
        conv_norm("conv1", "bn1", b_.input(), {.out = 64, .kernel = 7, .stride = 2, .pad = 3});
    x = b_.max_pool(b_.relu(x), {.kernel = 3, .stride = 2, .pad = 1});
    for (size_t stage = 0; stage < r_.blocks.size(); ++stage) {
      const std::string name = "layer" + std::to_string(stage + 1);
      for (int64_t i = 0; i < r_.blocks[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = block(name + "." + std::to_string(i), x, int64_t{64} << stage, stride);
      }
      x = b_.named(x, name);
    }
    return b_.finish(b_.linear("fc", b_.flatten(b_.global_average_pool(x)), classes_));
  }

 private:
  using Value = Builder::Value;

  Value conv_norm(const std::string& conv, const std::string& norm, const Value& x, const Conv& c) {
    return b_.batch_norm(norm, b_.conv(conv, x, c));
  }

  Value block(const std::string& name, const Value& x, int64_t planes, int64_t stride) {
    const int64_t out = r_.bottleneck ? 4 * planes : planes;
    Value y = r_.bottleneck ? bottleneck(name, x, planes, stride) : basic(name, x, planes, stride);
    Value residual = x;
    if (stride != 1 || b_.shape(x)[1] != out) {
      residual = conv_norm(name + ".downsample.0", name + ".downsample.1", x,
                           {.out = out, .stride = stride});
    }
    return b_.relu(b_.add(y, residual));
  }

  Value basic(const std::string& name, const Value& x, int64_t planes, int64_t stride) {
    const Value y = b_.relu(conv_norm(name + ".conv1", name + ".bn1", x,
                                      {.out = planes, .kernel = 3, .stride = stride, .pad = 1}));
    return conv_norm(name + ".conv2", name + ".bn2", y, {.out = planes, .kernel = 3, .pad = 1});
  }

  Value bottleneck(const std::string& name, const Value& x, int64_t planes, int64_t stride) {
    const int64_t width = planes * r_.width_per_group / 64 * r_.groups;
    Value y = b_.relu(conv_norm(name + ".conv1", name + ".bn1", x, {.out = width}));
    y = b_.relu(
        conv_norm(name + ".conv2", name + ".bn2", y,
                  {.out = width, .kernel = 3, .stride = stride, .pad = 1, .groups = r_.groups}));
    return conv_norm(name + ".conv3", name + ".bn3", y, {.out = 4 * planes});
  }

  const ResNet r_;
  Builder b_;
  const int64_t classes_;
};

}  // namespace

Model resnet18(const BuildOptions& o) {
  return ResNetBuilder({.bottleneck = false, .blocks = {2, 2, 2, 2}}, o).build();
}
Model resnet50(const BuildOptions& o) {
  return ResNetBuilder({.bottleneck = true, .blocks = {3, 4, 6, 3}}, o).build();
}
Model resnext101_32x4d(const BuildOptions& o) {
  const ResNet r{.bottleneck = true, .blocks = {3, 4, 23, 3}, .groups = 32, .width_per_group = 4};
  return ResNetBuilder(r, o).build();
}

}  // namespace ndtrain::models
