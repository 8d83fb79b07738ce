#include "framework/sparse/sync/site_all_reduce.h"

#include <utility>

namespace ndtrain {

void SiteAllReduce::begin(std::span<float> data, std::string name, DType wire) {
  Call& call = calls_.emplace_back(Call{.data = data, .name = std::move(name)});
  if (!sites_.leads()) return;
  CommOp op{.kind = CommOp::Kind::kAllReduce, .group = sites_.leaders(), .name = call.name};
  op.data = data;
  op.wire = wire;
  // A slice of the summands, then one of the sums.
  sent_bytes_ += 2 * std::ssize(data) * static_cast<int64_t>(size_of(wire)) / std::ssize(op.group);
  call.sum = communicator_.enqueue(std::move(op));
  communicator_.release(call.sum);
}

void SiteAllReduce::end() {
  Call call = std::move(calls_.front());
  calls_.pop_front();
  if (sites_.leads()) communicator_.wait(call.sum);
  if (sites_.members().size() == 1) return;
  CommOp op{.kind = CommOp::Kind::kBroadcast,
            .group = sites_.members(),
            .name = std::move(call.name),
            .data = call.data};
  op.root = sites_.leader();
  const Communicator::Op told = communicator_.enqueue(std::move(op));
  communicator_.release(told);
  communicator_.wait(told);
}

}  // namespace ndtrain
