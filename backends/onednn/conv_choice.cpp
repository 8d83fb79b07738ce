#include "backends/onednn/conv_choice.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "backends/onednn/winograd.h"

namespace ndtrain::onednn {
namespace {

// Images in a slice: more than four are faster only where the weights, which every slice reads
// anew, do not stay in cache.
constexpr int64_t kSizes[] = {1, 2, 3, 4, 8, 16};
constexpr int64_t kMostOfLightWeights = 4;
constexpr size_t kHeavyWeights = size_t{4} << 20;  // bytes
constexpr double kClearly = 0.9;                   // of the rule's time, to go against it
constexpr int kRepeats = 5;
constexpr size_t kMostPorts = 4;

std::vector<int64_t> sizes_for(const AskedConv& a, const Desc& weights) {
  // Weights that change are for the slices of any number of threads, so that these stay small.
  const bool heavy = weights.get_size() > kHeavyWeights && !a.weights_change;
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

// Seconds of `run`, the best of a few.
template <typename F>
double best_of(F run) {
  double best = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i == 1 || took.count() < best) best = took.count();  // the first one warms up
  }
  return best;
}

// For as many images as the largest slice of the direct form has.
double time_direct(const AskedConv& a, const DirectForm& form) {
  const PrimitivePtr p = a.make(form.sizes.back(), form.weights);
  std::vector<Buffer> buffers;
  std::vector<void*> data;
  for (const int arg : {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}) {
    if (arg == DNNL_ARG_BIAS && !a.how.bias) continue;
    buffers.push_back(zeros(p->desc(arg).get_size()));
    data.push_back(buffers.back().get());
  }
  const Buffer scratch = zeros(p->scratch());
  return best_of([&] { p->run(data.data(), scratch.get()); });
}

double time_winograd(const AskedConv& a, int64_t images) {
  const Desc plain = plain_desc(a.shape.as_asked(), a.weights_dtype);
  const Buffer weights = zeros(plain.get_size());
  const bool change = a.weights_change;
  const Winograd kernel(a, {.plain = plain, .data = change ? nullptr : weights.get()}, images, 1);
  const auto bytes = [&](const ndt_tensor_type& t, Layout layout) {
    return static_cast<size_t>(images * image_step(t, layout) * size_of(t.dtype));
  };
  const Buffer x = zeros(bytes(a.x, a.from)), y = zeros(bytes(a.y, a.to));
  const Buffer bias = zeros(static_cast<size_t>(a.shape.out) * sizeof(float));
  const Buffer scratch = zeros(kernel.workspace_bytes);
  std::vector<const void*> in(kMostPorts);
  in[0] = x.get();
  in[static_cast<size_t>(a.ports.weights)] = weights.get();
  if (a.how.bias) in[static_cast<size_t>(a.ports.bias)] = bias.get();
  if (a.how.finish.sum) in[static_cast<size_t>(a.ports.residual)] = y.get();
  void* const out[] = {y.get()};
  return best_of([&] { kernel.run(in.data(), out, scratch.get()); });
}

// What the layer is, but for its batch.
std::string key_of(const AskedConv& a) {
  std::ostringstream key;
  key << "conv3x3 " << a.shape.in << '>' << a.shape.out << ' ' << a.x.dims[2] << 'x' << a.x.dims[3]
      << '>' << a.y.dims[2] << 'x' << a.y.dims[3];
  if (a.x.dtype == NDT_BF16) key << " bf16";
  if (a.weights_change) key << " changing";
  if (a.how.bias) key << " bias";
  if (a.how.finish.sum) key << " sum";
  if (a.how.finish.activation) key << " activation";
  return key.str();
}

}  // namespace

DirectForm direct_form(const AskedConv& a) {
  DirectForm form{.weights = a.make(1)->desc(DNNL_ARG_WEIGHTS), .sizes = {}};
  form.sizes = sizes_for(a, form.weights);
  if (form.sizes.empty()) unsupported("oneDNN does not take the weights that it laid out");
  return form;
}

// Not of a single tile: one image would spend its time reading the weights, which are four times as
// large. Nor of bf16 where its products are many times as fast as those of f32.
bool winograd_by_rule(const AskedConv& a) {
  return can_winograd(a) && (a.x.dtype == NDT_F32 || !has_amx()) &&
         std::max(a.y.dims[2], a.y.dims[3]) > kWinogradTile;
}

bool takes_winograd(const ndt_device& device, const AskedConv& a) {
  if (device.less_memory || !can_winograd(a)) return false;
  const bool by_rule = winograd_by_rule(a);
  if (!device.tuning) return by_rule;
  const auto name = [](bool winograd) { return std::string(winograd ? "winograd" : "direct"); };
  const std::string answer = device.tuning->choose(key_of(a), name(by_rule), [&] {
    const DirectForm form = direct_form(a);
    const auto images = static_cast<double>(form.sizes.back());
    const double d = time_direct(a, form) / images,
                 w = time_winograd(a, form.sizes.back()) / images;
    const bool faster = by_rule ? !(d < kClearly * w) : w < kClearly * d;
    return Tuning::Measured{name(faster), faster ? w : d, by_rule ? w : d};
  });
  return answer == name(true);
}

}  // namespace ndtrain::onednn
