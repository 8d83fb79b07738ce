// What the loops of both roles' daemons share.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace ndtrain::ndp {

inline constexpr std::chrono::milliseconds kLongestWait{200};  // so that a signal is seen soon
inline constexpr int kEventsOfTurn = 1000;  // then timers, lanes and people have their turn

// For who a Tuner is and which life of a store this is: nothing that is computed depends on it.
inline uint64_t random_bits() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace ndtrain::ndp
