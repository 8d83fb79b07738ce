#include "ndp/jobs/precision_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ndtrain::ndp {

void PrecisionCheck::add(int64_t f32_class, int64_t other_class, int64_t label, double cosine) {
  ++photos;
  agree += f32_class == other_class;
  cosine_sum += cosine;
  if (label < 0) return;
  ++labelled;
  lost += f32_class == label && other_class != label;
  gained += f32_class != label && other_class == label;
}

double PrecisionCheck::agreement() const {
  return static_cast<double>(agree) / static_cast<double>(std::max<int64_t>(1, photos));
}

double PrecisionCheck::cosine() const {
  return cosine_sum / static_cast<double>(std::max<int64_t>(1, photos));
}

double PrecisionCheck::drop() const {
  if (labelled == 0) return 100 * (1 - agreement());
  return 100 * static_cast<double>(lost - gained) / static_cast<double>(labelled);
}

double PrecisionCheck::bound(double times) const {
  constexpr double kOneSided95 = 1.6449;
  const double n = times * static_cast<double>(labelled > 0 ? labelled : photos) + 2;
  const double worse = times * static_cast<double>(labelled > 0 ? lost : photos - agree) + 1;
  const double better = times * static_cast<double>(labelled > 0 ? gained : 0) + 1;
  const double p = worse / n, q = better / n;
  return 100 * (p - q + kOneSided95 * std::sqrt((p + q - (p - q) * (p - q)) / n));
}

int64_t PrecisionCheck::photos_for(double max_drop) const {
  constexpr double kMost = 1e4;  // times
  if (photos == 0) return 0;
  for (double times = 1; times < kMost; times *= 1.1) {
    if (bound(times) <= max_drop) return std::llround(times * static_cast<double>(photos));
  }
  return 0;
}

PrecisionVerdict judge(const PrecisionCheck& check, double max_drop) {
  if (check.photos > 0 && check.drop_bound() <= max_drop) return PrecisionVerdict::kAccepted;
  return check.photos == 0 || check.drop() <= max_drop ? PrecisionVerdict::kTooFew
                                                       : PrecisionVerdict::kRefused;
}

std::string describe(const PrecisionCheck& c, double max_drop) {
  std::string text = fmt::format(
      "{} photos against f32: the same best class for {:.1f} %, cosine of the features {:.4f}, "
      "top-1 {} {:.2f} points (95 % sure: below {:.2f}; allowed: {:g})",
      c.photos, 100 * c.agreement(), c.cosine(),
      c.labelled > 0 ? "falls by" : "falls, as nothing says what the photos show, by at most",
      c.drop(), c.drop_bound(), max_drop);
  if (judge(c, max_drop) == PrecisionVerdict::kTooFew) {
    const int64_t needed = c.photos_for(max_drop);
    text += needed > 0 ? fmt::format("; too few photos to tell, about {} would do", needed)
                       : std::string("; too few photos to tell");
  }
  return text;
}

}  // namespace ndtrain::ndp
