#include "backends/cpu/kernels/conv_product.h"

#include "backends/cpu/kernels/conv_gemm.h"
#include "backends/cpu/kernels/conv_winograd.h"

namespace ndtrain::cpu {

std::unique_ptr<ConvProduct> conv_product(const ConvGeometry& g, int slots, bool less_memory) {
  if (!less_memory && ConvWinograd::fits(g)) return std::make_unique<ConvWinograd>(g, slots);
  return std::make_unique<ConvGemm>(g, slots);
}

}  // namespace ndtrain::cpu
