#include "ndp/wire/tuner_identity.h"

namespace ndtrain::ndp {

bool is_behind(const TunerIdentity& known, const TunerIdentity& met) {
  if (known.id.empty()) return false;
  return known.id != met.id || met.term >= known.term + kTermsOfRestore;
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
