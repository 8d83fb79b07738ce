// How many photos a store works on before it sends their rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

namespace ndtrain::ndp {

inline constexpr size_t kLeastRowTask = 32;  // an engine's batch
inline constexpr size_t kMostRowTask = 256;
inline constexpr double kRowTaskSeconds = 1;

// Of so many that wait, of which each takes so many seconds (nullopt: not known yet): about a
// second's, and fewer and fewer towards the end of a run (guided self-scheduling, Polychronopoulos
// and Kuck, IEEE Transactions on Computers, 1987), so that a link has something to carry all the
// time, and the rows that the Tuner waits for last do not all wait for it at once.
inline size_t row_task(size_t waiting, std::optional<double> photo_s) {
  if (!photo_s) return kLeastRowTask;
  const double in_time = kRowTaskSeconds / std::max(*photo_s, kRowTaskSeconds / kMostRowTask);
  return std::clamp(std::min(waiting / 4, static_cast<size_t>(in_time)), kLeastRowTask,
                    kMostRowTask);
}

}  // namespace ndtrain::ndp
