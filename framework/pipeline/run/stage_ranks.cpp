#include "framework/pipeline/run/stage_ranks.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {

StageRanks::StageRanks(const std::vector<int>& replicas) : first_{0} {
  for (const int n : replicas) {
    if (n < 1) throw Error("pipeline: a stage on ", n, " ranks; 1 is the least");
    first_.push_back(first_.back() + n);
  }
}

int StageRanks::most_replicas() const {
  int most = 1;
  for (int place = 0; place < places(); ++place) most = std::max(most, replicas(place));
  return most;
}

int StageRanks::place_of(int rank) const {
  return static_cast<int>(std::ranges::upper_bound(first_, rank) - first_.begin()) - 1;
}

RankGroup StageRanks::group(int place) const {
  RankGroup group;
  for (int r = 0; r < replicas(place); ++r) group.push_back(rank_of(place, r));
  return group;
}

std::vector<StageRanks::Peer> StageRanks::receivers(int rank, int place, int64_t rows) const {
  return peers(rank, place, rows, true);
}

std::vector<StageRanks::Peer> StageRanks::senders(int rank, int place, int64_t rows) const {
  return peers(rank, place, rows, false);
}

std::vector<StageRanks::Peer> StageRanks::peers(int rank, int place, int64_t rows,
                                                bool sends) const {
  const int own = replica_of(rank), here = replicas(place_of(rank)), there = replicas(place);
  if (here == there) return {{rank_of(place, own), std::nullopt}};
  const int64_t begin = rows_of(rows, own, here).begin;
  std::vector<Peer> peers;
  for (const RowTransfer& t : sends ? route(rows, here, there) : route(rows, there, here)) {
    if ((sends ? t.from : t.to) != own) continue;
    peers.push_back({rank_of(place, sends ? t.to : t.from),
                     RowInterval{t.rows.begin - begin, t.rows.end - begin}});
  }
  return peers;
}

}  // namespace ndtrain
