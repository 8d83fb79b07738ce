// Which Tuner, and which of its starts. A state directory that is copied makes two Tuners of one
// id; the terms they count up to may meet, the numbers that they draw do not.
#pragma once

#include <cstdint>
#include <string>

namespace ndtrain::ndp {

struct TunerIdentity {
  std::string id;      // 16 bytes, of the state directory; "": none is known
  uint64_t term = 0;   // counts its starts
  uint64_t start = 0;  // drawn at this one; 0: not known, of a program that draws none
  bool operator==(const TunerIdentity&) const = default;
};

// A restored Tuner's term is larger by so much, at least, than the one that was saved: more than
// anybody starts a Tuner between two sessions of a store.
inline constexpr uint64_t kTermsOfRestore = 4096;

// Whether `met` may lack what the Tuner that a store knows has acknowledged: it was restored from a
// backup since, or is another one.
bool is_behind(const TunerIdentity& known, const TunerIdentity& met);

// A restored Tuner's term is at least that of the time, too: larger than any that an earlier copy
// has counted up to since it was restored, as long as it is started less than a million times a
// second.
uint64_t term_of_time(int64_t unix_seconds);

// Whether no Tuner has come to the term of `met` by now: it has not been counted up to from the one
// that a store knows, and is above that of the time by more than kClocksDiffer. A store that
// followed it could not follow another any more.
inline constexpr int64_t kClocksDiffer = 3600;  // seconds
bool is_beyond(const TunerIdentity& known, const TunerIdentity& met, int64_t unix_seconds);
std::string refusal_of_term(uint64_t term);  // for people

// Whether `met` is another Tuner than the one a store knows, of the very same term.
bool is_twin(const TunerIdentity& known, const TunerIdentity& met);

// What a person is told who has to choose between them.
std::string refusal_of_twin(uint64_t term);

}  // namespace ndtrain::ndp
