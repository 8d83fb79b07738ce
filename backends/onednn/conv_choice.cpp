#include "backends/onednn/conv_choice.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

namespace ndtrain::onednn {
namespace {

// Images in a slice: more than four are faster only where the weights, which every slice reads
// anew, do not stay in cache.
constexpr int64_t kSizes[] = {1, 2, 3, 4, 8, 16};
constexpr int64_t kMostOfLightWeights = 4;
constexpr size_t kHeavyWeights = size_t{4} << 20;  // bytes
constexpr double kClearly = 0.9;                   // of the rule's time, to go against it
constexpr int kRepeats = 5;

bool can_winograd(const AskedConv& a) {
  const ConvShape& s = a.shape;
  return a.x.dtype == NDT_F32 && has_winograd() && s.groups == 1 && !s.changed() && s.height == 3 &&
         s.width == 3 && s.strides == Dims{1, 1} && s.dilations == Dims{0, 0};
}

std::vector<int64_t> sizes_for(const AskedConv& a, const Desc& weights) {
  // Weights that change are for the slices of any number of threads, so that these stay small.
  const bool heavy = weights.get_size() > kHeavyWeights && !a.how.weights_change;
  std::vector<int64_t> sizes;
  for (const int64_t images : kSizes) {
    if (images > kMostOfLightWeights && !heavy) break;
    try {
      a.make(images, weights);
      sizes.push_back(images);
    } catch (const Unsupported&) {  // then without this size
    }
  }
  return sizes;
}

// Empty when the library does not have it.
std::optional<ConvChoice> with(AskedConv a, bool winograd) {
  a.how.winograd = winograd;
  try {
    const Desc weights = a.make(winograd ? 2 : 1)->desc(DNNL_ARG_WEIGHTS);
    ConvChoice choice{weights, sizes_for(a, weights)};
    if (choice.sizes.empty()) unsupported("oneDNN does not take the weights that it laid out");
    return choice;
  } catch (const Unsupported&) {
    if (!winograd) throw;
    return {};
  }
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

Buffer zeros(size_t bytes) {
  constexpr size_t kLine = 64;
  Buffer b(std::aligned_alloc(kLine, (bytes / kLine + 1) * kLine));
  if (!b) throw std::bad_alloc();
  std::memset(b.get(), 0, bytes);
  return b;
}

// Seconds for an image in the largest slice.
double measure(AskedConv a, const ConvChoice& c, bool winograd) {
  a.how.winograd = winograd;
  const int64_t images = c.sizes.back();
  const PrimitivePtr p = a.make(images, c.weights);
  std::vector<Buffer> buffers;
  std::vector<void*> data;
  for (const int arg : {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}) {
    if (arg == DNNL_ARG_BIAS && !a.how.bias) continue;
    buffers.push_back(zeros(p->desc(arg).get_size()));
    data.push_back(buffers.back().get());
  }
  const Buffer scratch = zeros(p->scratch());
  double best = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    p->run(data.data(), scratch.get());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i == 1 || took.count() < best) best = took.count();  // the first one warms up
  }
  return best / static_cast<double>(images);
}

// What the layer is, but for its batch.
std::string key_of(const AskedConv& a) {
  std::ostringstream key;
  key << "conv3x3 " << a.shape.in << '>' << a.shape.out << ' ' << a.x.dims[2] << 'x' << a.x.dims[3]
      << '>' << a.y.dims[2] << 'x' << a.y.dims[3];
  if (a.how.weights_change) key << " changing";
  if (a.how.bias) key << " bias";
  if (a.how.finish.sum) key << " sum";
  if (a.how.finish.activation) key << " activation";
  return key.str();
}

}  // namespace

// Where Winograd is faster, measured in slices of four: not with few channels, nor where the
// transformed images of a layer do not stay in cache; nor with few tiles, of which it takes more
// when every slice transforms the weights. Four tiles are few though a large batch gains by them:
// the weights are four times as large, and reading them is most of what one image takes.
bool winograd_by_rule(const AskedConv& a) {
  const int64_t height = a.y.dims[2], width = a.y.dims[3];
  const int64_t channels = std::min(a.shape.in, a.shape.out);
  return can_winograd(a) && channels >= (height * width > 60 * 60 ? 64 : 32) &&
         std::min(height, width) >= (a.how.weights_change ? 14 : 9);
}

ConvChoice choose(const ndt_device& device, AskedConv& a) {
  const ConvChoice direct = *with(a, false);
  const bool ask_winograd = can_winograd(a) && !device.less_memory;
  const std::optional<ConvChoice> winograd = ask_winograd ? with(a, true) : std::nullopt;
  if (!winograd) return direct;
  bool chosen = winograd_by_rule(a);
  if (device.tuning) {
    const auto name = [](bool w) { return std::string(w ? "winograd" : "direct"); };
    const std::string rule = name(chosen);
    const std::string answer = device.tuning->choose(key_of(a), rule, [&] {
      const double d = measure(a, direct, false), w = measure(a, *winograd, true);
      const bool faster = chosen ? !(d < kClearly * w) : w < kClearly * d;
      return Tuning::Measured{name(faster), faster ? w : d, chosen ? w : d};
    });
    chosen = answer == name(true);
  }
  a.how.winograd = chosen;
  return chosen ? *winograd : direct;
}

}  // namespace ndtrain::onednn
