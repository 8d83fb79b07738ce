// The norm of gradients that have been summed, from what each rank has made sums of.
#pragma once

#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/parallel/comm_plan.h"
#include "framework/train/gradient_norm.h"

namespace ndtrain {

// A step enqueues it behind its sums, and then asks for norm() or for nothing. The bits are those
// of one process (gradient_norm.h). Not thread-safe.
class NormExchange {
 public:
  // Of a space of so many elements. Keeps a reference. Throws Error where a bucket does not begin
  // and end at multiples of ParameterSpace::kAlign.
  NormExchange(Communicator& communicator, const RankGroup& group, const CommPlan& plan,
               int64_t elements);

  void enqueue();
  // `gradients` are those of the space; this rank's slices are sums. Waits for the other ranks.
  double norm(const float* gradients);
  void leave_out();  // the step is left out

 private:
  struct Part {  // of the space, and where its sum of squares lies
    Subtree node;
    size_t at;
  };
  void carry_out();

  Communicator& communicator_;
  const RankGroup group_;
  const int leaves_;
  std::vector<Part> parts_;      // of all ranks, as they lie in the space
  std::vector<int64_t> begins_;  // of each rank's among the floats that travel
  std::vector<float> travels_;   // doubles, of two floats each
  Communicator::Op op_ = 0;
};

}  // namespace ndtrain
