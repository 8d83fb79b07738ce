#include "framework/pipeline/schedules/in_order_schedule.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {

std::vector<Instruction> InOrderSchedule::instructions(const PipeShape& shape, int rank) const {
  InstructionList list(shape, rank);
  if (shape.chunks != 1) {
    throw Error("schedule '", name(), "': ", shape.chunks,
                " stages of a rank; it takes one, "
                "'interleaved' any number");
  }
  const int64_t all = shape.all_micro_batches(), most_ahead = ahead(shape, rank);
  const int64_t late = delay(shape, rank);
  int64_t next = 0;  // to be forwarded
  for (int64_t back = 0; back < all; ++back) {
    const int64_t updates = back / shape.micro_batches;
    for (; next < all && next <= back + most_ahead; ++next) {
      const int64_t mini_batch = next / shape.micro_batches;
      if (mini_batch - late > updates) break;  // its version is not made yet
      list.forward(rank, next, std::max<int64_t>(0, mini_batch - late));
    }
    take_back(list, shape, rank, back);
    if ((back + 1) % shape.micro_batches == 0) list.update(rank, updates);
  }
  return list.flushed();
}

void InOrderSchedule::take_back(InstructionList& list, const PipeShape& shape, int stage,
                                int64_t micro_batch) const {
  const int64_t mini_batch = micro_batch / shape.micro_batches;
  const int64_t version = std::max<int64_t>(0, mini_batch - delay(shape, stage));
  if (!splits_backward()) {
    list.backward(stage, micro_batch, version);
    return;
  }
  list.backward_input(stage, micro_batch, version);
  const int64_t first = mini_batch * shape.micro_batches, last = first + shape.micro_batches - 1;
  const int64_t behind = weights_behind(shape, stage);
  int64_t weights = std::max(first, micro_batch - behind);
  // The last of them are done when no others are left.
  const int64_t end = micro_batch == last ? last : micro_batch - behind;
  for (; weights <= end; ++weights) list.backward_weight(stage, weights, version);
}

int64_t InOrderSchedule::most_in_flight(const PipeShape& shape, int stage) const {
  const int64_t versions = delay(shape, stage) + 1;
  return std::min({ahead(shape, stage) + weights_behind(shape, stage) + 1,
                   versions * shape.micro_batches, shape.all_micro_batches()});
}

}  // namespace ndtrain
