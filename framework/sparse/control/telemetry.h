// What one rank measured in one step; the controller knows nothing else of it.
#pragma once

#include <cstdint>
#include <string>

namespace ndtrain {

struct Telemetry {
  int rank = 0;
  int64_t step = 0;   // of the run, from 0
  int64_t batch = 0;  // rows of this rank
  double drop = 0;    // SparseSyncOptions::drop of the step
  // Mb/s (10^6 bits) while gradients were under way, not of the whole step; 0: none were.
  double send_mbps = 0, receive_mbps = 0;
  double forward_ms = 0, backward_ms = 0;  // computing, without what follows
  // Waiting for the others' gradients: between the backward pass and the next forward pass, and
  // within that one.
  double backward_forward_gap_ms = 0, in_forward_gap_ms = 0;

  double wait_ms() const { return backward_forward_gap_ms + in_forward_gap_ms; }
  // A backward pass is two thirds of the computing of a step (StellaTrain, section 4).
  double computing_ms() const { return 1.5 * backward_ms; }
};

// Why it cannot be gone by, naming the member and its value: no rows; a drop that is none; a time
// or rate that is negative, not finite or greater than an hour or 10^6 Mb/s (of a clock that
// jumped); no time for a backward pass. Empty where all is well.
std::string fault_of(const Telemetry& t);

}  // namespace ndtrain
