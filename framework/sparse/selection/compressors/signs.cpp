// The sign of each element, times the mean of their magnitudes.
#include <cmath>
#include <numeric>

#include "framework/sparse/selection/compressors/lane_sum.h"
#include "framework/sparse/selection/compressors/make.h"

namespace ndtrain::compressors {
namespace {

class Signs : public Compressor {
 public:
  explicit Signs(bool keeps_rest) : keeps_rest_(keeps_rest) {}
  bool takes_all() const override { return true; }

 private:
  void take_some(std::span<float> values, int64_t /*k*/, const Rng& /*rng*/,
                 CompressorState& /*state*/, CompressorScratch& /*scratch*/,
                 Selection& out) const override {
    const double sum = lane_sum(values, [](float x) { return std::fabs(static_cast<double>(x)); });
    const auto scale = static_cast<float>(sum / static_cast<double>(values.size()));
    out.indices.resize(values.size());
    std::iota(out.indices.begin(), out.indices.end(), 0);
    out.values.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      out.values[i] = std::copysign(scale, values[i]);
      values[i] = keeps_rest_ ? values[i] - out.values[i] : 0;
    }
  }

  bool keeps_rest_;
};

}  // namespace

std::unique_ptr<Compressor> signum(const CompressorOptions& /*options*/) {
  return std::make_unique<Signs>(false);
}

std::unique_ptr<Compressor> efsignum(const CompressorOptions& /*options*/) {
  return std::make_unique<Signs>(true);
}

}  // namespace ndtrain::compressors
