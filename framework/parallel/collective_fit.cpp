#include "framework/parallel/collective_fit.h"

#include <ostream>

#include "framework/core/error.h"
#include "framework/numeric/line.h"

namespace ndtrain {

CostProfile::Collective fit_collective(std::span<const CollectiveTiming> timings) {
  std::vector<double> bytes, seconds, weights;
  for (const CollectiveTiming& t : timings) {
    if (!(t.seconds > 0)) {
      throw Error("collective of ", t.bytes, " bytes: took ", t.seconds, " seconds");
    }
    bytes.push_back(static_cast<double>(t.bytes));
    seconds.push_back(t.seconds);
    weights.push_back(1 / t.seconds);
  }
  const Line line = fit_rising_line(bytes, seconds, weights);
  return {.alpha_s = line.at_zero, .beta_s_per_byte = line.slope};
}

}  // namespace ndtrain
