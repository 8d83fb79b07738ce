// What a lower precision costs, photo by photo against f32.
#pragma once

#include <cstdint>
#include <string>

namespace ndtrain::ndp {

struct PrecisionCheck {
  int64_t photos = 0, agree = 0;  // photos, and those with the same best class in both
  int64_t labelled = 0;           // photos whose label counts below
  int64_t lost = 0, gained = 0;   // labelled photos that only f32, only the other gets right
  double cosine_sum = 0;          // between the features in both

  void add(int64_t f32_class, int64_t other_class, int64_t label, double cosine);

  double agreement() const;
  double cosine() const;
  // By how many points top-1 falls. Without labels every photo that changes its class counts.
  double drop() const;
  // What the drop stays below with a confidence of 95 %: the adjusted Wald bound of a paired
  // difference (Bonett and Price 2012), which holds for few photos as well.
  double drop_bound() const { return bound(1); }
  // How many photos of this kind would hold the bound below `max_drop`; 0: no number would.
  int64_t photos_for(double max_drop) const;

  bool operator==(const PrecisionCheck&) const = default;

 private:
  double bound(double times) const;  // with so many times the photos
};

enum class PrecisionVerdict {
  kAccepted,  // the drop's bound is within what is allowed
  kTooFew,    // the drop is, its bound is not: too few photos to tell
  kRefused    // the drop is beyond it
};

// `max_drop` in points of top-1.
PrecisionVerdict judge(const PrecisionCheck& check, double max_drop);
// One sentence for people.
std::string describe(const PrecisionCheck& check, double max_drop);

}  // namespace ndtrain::ndp
