// What a stage has at hand while it works through its instructions, and whether they make sense.
#pragma once

#include <cstdint>
#include <deque>

#include "framework/pipeline/schedules/instruction.h"

namespace ndtrain {

class StageAccount {
 public:
  // `trains`: else it only runs forward, and has nothing in flight.
  explicit StageAccount(bool trains) : trains_(trains) {}

  // What it computes next, or a flush. Throws Error of a micro-batch that is not the next one to be
  // forwarded or taken back, or that is taken back on another version than it was forwarded on; of
  // a version that is not made yet; of an update or a flush while something of it is left to be
  // done.
  void take(const Instruction& i);

  int64_t forwarded() const { return forwarded_; }    // micro-batches, since the last flush
  int64_t taken_back() const { return taken_back_; }  // likewise
  int64_t most_in_flight() const { return most_in_flight_; }
  int64_t most_versions() const { return most_versions_; }  // from the oldest in use to the newest

 private:
  void forward(const Instruction& i);
  void take_back(const Instruction& i);
  void take_back_weights(const Instruction& i);
  void update(const Instruction& i);
  void flush(const Instruction& i);
  void done_with_one();

  bool trains_;
  int64_t newest_ = 0;                                 // version
  int64_t forwarded_ = 0, taken_back_ = 0, done_ = 0;  // micro-batches; done: of weights, too
  std::deque<int64_t> versions_;                       // of what is in flight, the oldest first
  int64_t most_in_flight_ = 0, most_versions_ = 1;
};

}  // namespace ndtrain
