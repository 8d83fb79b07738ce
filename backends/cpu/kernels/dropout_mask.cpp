// DropoutMask: 0 with probability `ratio`, else 1 / (1 - ratio), drawn with Philox4x32-10 (Salmon
// et al., SC'11) from key = seed and counter = (element, stream ^ (step << 20)): the numbers of the
// framework's generator.
#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// In [0, 1), 53 bits.
double uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  uint32_t c0 = low(index), c1 = high(index), c2 = low(stream), c3 = high(stream);
  uint32_t k0 = low(seed), k1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = high(p1) ^ c1 ^ k0;
    c1 = low(p1);
    c2 = high(p0) ^ c3 ^ k1;
    c3 = low(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return static_cast<double>((uint64_t{c1} << 32 | c0) >> 11) * 0x1p-53;
}

std::unique_ptr<Kernel> dropout_mask_kernel(const Node& node) {
  if (node.out().dtype != NDT_F32) unsupported("a mask of ", name_of(node.out().dtype));
  const double ratio = node.f("ratio");
  const uint64_t stream = static_cast<uint64_t>(node.i("stream"));
  return kernel(
      [n = count(node.out()), ratio, stream](const void* const* in, void* const* out, void*) {
        const uint64_t seed = as<uint64_t>(in[0])[0], step = as<uint64_t>(in[0])[1];
        const float kept = static_cast<float>(1 / (1 - ratio));
        float* mask = as<float>(out[0]);
        parallel_for(n, kGrain / 4, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const double u = uniform(seed, stream ^ (step << 20), static_cast<uint64_t>(i));
            mask[i] = u < ratio ? 0.0f : kept;
          }
        });
      });
}

const Registered registered{{"DropoutMask", dropout_mask_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
