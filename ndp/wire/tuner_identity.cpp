#include "ndp/wire/tuner_identity.h"

#include <algorithm>

namespace ndtrain::ndp {
namespace {

bool leaps(uint64_t from, uint64_t to) { return to > from && to - from >= kTermsOfRestore; }

}  // namespace

bool is_behind(const TunerIdentity& known, const TunerIdentity& met) {
  if (known.id.empty()) return false;
  return known.id != met.id || leaps(known.term, met.term);
}

uint64_t term_of_time(int64_t unix_seconds) {
  constexpr int kTermsPerSecondBits = 20;
  return static_cast<uint64_t>(std::max<int64_t>(unix_seconds, 0)) << kTermsPerSecondBits;
}

bool is_beyond(const TunerIdentity& known, const TunerIdentity& met, int64_t unix_seconds) {
  return leaps(known.id == met.id ? known.term : 0, met.term) &&
         met.term > term_of_time(unix_seconds + kClocksDiffer);
}

std::string refusal_of_term(uint64_t term) {
  return "the Tuner's term is " + std::to_string(term) +
         ", which no Tuner has come to by now: it is not the Tuner, or the clock of this machine, "
         "or "
         "of the one on which it was restored, is wrong; put that right, and this machine dials "
         "again";
}

bool is_twin(const TunerIdentity& known, const TunerIdentity& met) {
  return known.start != 0 && known.id == met.id && known.term == met.term &&
         known.start != met.start;
}

std::string refusal_of_twin(uint64_t term) {
  return "this Tuner's term is " + std::to_string(term) +
         ", and the store has seen another Tuner of the same term: one runs on a copy of the "
         "other's state directory; stop the copy, or, to keep this one, stop the other and start "
         "this one again, which gives it a newer term";
}

}  // namespace ndtrain::ndp
