// What a Tuner knows of its stores, for plans.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/tuner_client.h"

namespace ndtrain::cli {

// 0: not known.
struct TunerStores {
  int number = 0;     // of stores that are given work
  double photos = 0;  // of these, copies counted once for each
  std::vector<double> photos_of_each;
  // Bytes/s to the Tuner, as it has measured them: of the fastest store, which the Tuner's own link
  // carries at least, and of the slowest.
  double fastest = 0, slowest = 0;
  int64_t measured = 0;  // Unix seconds: the oldest of these
  bool asked = false;    // a Tuner was
};

TunerStores stores_known_to(const TunerClient& tuner);
// The same when the link of a store has been measured, which a Tuner does within seconds of its
// coming: half a minute at most. At once where no store is known.
TunerStores stores_measured_by(const TunerClient& tuner);

}  // namespace ndtrain::cli
