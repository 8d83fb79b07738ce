#include "framework/pipeline/schedules/replicas.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {

RowInterval rows_of(int64_t batch, int replica, int replicas) {
  if (replica < 0 || replica >= replicas) {
    throw Error("pipeline: replica ", replica, " of ", replicas);
  }
  if (batch < replicas) {
    throw Error("pipeline: ", batch, " rows cannot be shared out among ", replicas,
                " replicas; each takes one at least");
  }
  // What one more row of the first replicas would be, the last ones have.
  const int64_t each = batch / replicas, more = batch % replicas;
  const auto begin = [&](int r) { return each * r + std::max<int64_t>(0, more - (replicas - r)); };
  return {begin(replica), begin(replica + 1)};
}

std::vector<RowTransfer> route(int64_t batch, int from_replicas, int to_replicas) {
  std::vector<RowTransfer> transfers;
  for (int from = 0, to = 0; transfers.empty() || transfers.back().rows.end < batch;) {
    const RowInterval has = rows_of(batch, from, from_replicas);
    const RowInterval needs = rows_of(batch, to, to_replicas);
    transfers.push_back(
        {from, to, {std::max(has.begin, needs.begin), std::min(has.end, needs.end)}});
    if (has.end <= needs.end) ++from;
    if (needs.end <= has.end) ++to;
  }
  return transfers;
}

}  // namespace ndtrain
