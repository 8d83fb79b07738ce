// Selections of all sites, step by step, in a thread of its own: beside what computes the next
// steps. Ranks of a site select the same. Those of a step are in parts, neighbouring slots from the
// last one on, which is nearest to the input, so that what a forward pass reads first comes first.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "framework/sparse/selection/selection.h"
#include "framework/sparse/sync/error_feedback.h"
#include "framework/sparse/sync/message_gather.h"
#include "framework/sparse/sync/sites.h"

namespace ndtrain {

// Called by one thread. Keeps references.
class SparseExchange {
 public:
  // With `largest_of_sums` only as many elements of a sum as a site sends are kept, the largest
  // magnitudes, of equal ones the first; what a site has sent of the others goes back to its
  // feedback (Shi et al., "A distributed synchronous SGD algorithm with global top-k
  // sparsification", ICDCS 2019, whose tree drops what is put back here).
  SparseExchange(std::vector<ParameterSlot> slots, ErrorFeedback& feedback,
                 Communicator& communicator, const Sites& sites, ValueCoding wire,
                 GatherRoute route, bool largest_of_sums = false);
  ~SparseExchange() { abandon(); }

  // What is under way is given up, and the communicator left then. After it nothing can begin.
  void abandon();
  // Likewise after a RankLost, but the communicator is not left: it has nothing under way.
  void end_after_loss();

  // Of a step, whose gradients have been added to the feedback, so many elements of each slot
  // travel; of those with 0 nothing.
  void begin(std::vector<int64_t> count);
  // Returns when nothing will be taken from the feedback but by further steps: it may be changed.
  void wait_until_taken();
  // Of the oldest step of which not every slot was asked for, what all sites have sent of this one,
  // which was not, added up in their order. Waits. Throws RankLost; Error where selections do not
  // fit.
  Selection sum(size_t slot);

  int64_t sent_bytes() const;  // to each of the other sites, so far
  struct Rates {
    double send_mbps = 0, receive_mbps = 0;  // 10^6 bits a second (link_rate.h)
  };
  Rates rates() const;

 private:
  struct Part {         // of a step
    size_t first, end;  // slots
    uint64_t most = 0;  // bytes of a site
  };
  struct Step {  // that was exchanged, or is
    std::vector<std::optional<Selection>> sums;
    size_t asked = 0;
  };
  void run(const std::stop_token& stop);
  std::vector<Part> parts_of(const std::vector<int64_t>& count) const;
  void exchange(const std::vector<int64_t>& count, Step& to);
  void add_up(const Part& part, const std::vector<std::string>& of_sites,
              const std::vector<std::vector<int64_t>>& expected, const std::vector<int64_t>& count,
              Step& to);
  std::string take(const Part& part, const std::vector<int64_t>& count);
  Selection read(std::string_view bytes, size_t slot, size_t site, int64_t elements) const;
  void keep_largest(size_t slot, size_t count, Selection& sum);
  void taken();

  const std::vector<ParameterSlot> slots_;
  ErrorFeedback& feedback_;
  Communicator& communicator_;
  const Sites sites_;
  const ValueCoding wire_;
  const bool largest_of_sums_;
  const std::unique_ptr<Compressor> largest_ = make_compressor("topk");
  // Of the thread.
  MessageGather gather_;
  CompressorScratch scratch_;
  Selection selection_;
  // Of each slot, where it is needed again: all ranks know its indices, or some of it may come
  // back.
  std::vector<Selection> own_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::vector<int64_t>> begun_;
  std::deque<Step> steps_;  // by begin(); they stay where they are
  std::exception_ptr failed_;
  int64_t not_taken_ = 0;  // steps
  int64_t sent_bytes_ = 0;
  Rates rates_;
  std::jthread thread_;  // ends first
};

}  // namespace ndtrain
