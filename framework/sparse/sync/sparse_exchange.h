// Selections of all ranks, step by step, in a thread of its own: beside what computes the next
// steps.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "framework/sparse/selection/selection.h"
#include "framework/sparse/sync/error_feedback.h"
#include "framework/sparse/sync/message_gather.h"

namespace ndtrain {

// Called by one thread. Keeps references.
class SparseExchange {
 public:
  SparseExchange(std::vector<ParameterSlot> slots, ErrorFeedback& feedback,
                 Communicator& communicator, DType wire);
  ~SparseExchange() { abandon(); }

  // What is under way is given up, and the communicator left then. After it nothing can begin.
  void abandon();

  // Of a step, whose gradients have been added to the feedback, so many elements of each slot
  // travel.
  void begin(std::vector<int64_t> count);
  // Returns when nothing will be taken from the feedback but by further steps: it may be changed.
  void wait_until_taken();
  // Of the oldest step that was not asked for, what all ranks have sent of each slot, added up in
  // their order. Waits. Throws RankLost; Error where selections do not fit.
  std::vector<Selection> next();

  int64_t sent_bytes() const;  // to each of the others, so far

 private:
  void run(const std::stop_token& stop);
  std::vector<Selection> exchange(const std::vector<int64_t>& count);
  std::string take(const std::vector<int64_t>& count);
  std::vector<Selection> add_up(const std::vector<std::string>& of_ranks,
                                const std::vector<int64_t>& count);

  const std::vector<ParameterSlot> slots_;
  ErrorFeedback& feedback_;
  Communicator& communicator_;
  const DType wire_;
  // Of the thread.
  MessageGather gather_;
  CompressorScratch scratch_;
  std::vector<std::vector<uint32_t>> indices_;  // of each slot, where all ranks know them

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::vector<int64_t>> begun_;
  std::deque<std::vector<Selection>> ended_;
  std::exception_ptr failed_;
  int64_t not_taken_ = 0, under_way_ = 0;  // steps
  int64_t sent_bytes_ = 0;
  std::jthread thread_;  // ends first
};

}  // namespace ndtrain
