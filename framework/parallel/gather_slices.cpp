#include "framework/parallel/gather_slices.h"

#include <string>
#include <utility>

#include "framework/parallel/slices.h"

namespace ndtrain {

void gather_slices(Communicator& communicator, const RankGroup& group, const CommPlan& plan,
                   std::span<float> space) {
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const ParameterRange& range = plan.buckets[b];
    CommOp op{.kind = CommOp::Kind::kAllGather, .group = group};
    op.name = "slices " + std::to_string(b);
    op.data = space.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    op.part_begin = slice_begins(range, static_cast<int>(group.size()));
    const Communicator::Op gathered = communicator.enqueue(std::move(op));
    communicator.release(gathered);
    communicator.wait(gathered);
  }
}

}  // namespace ndtrain
