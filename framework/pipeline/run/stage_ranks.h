// Which ranks of a run work on which stages.
#pragma once

#include <optional>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/pipeline/schedules/replicas.h"

namespace ndtrain {

// A place in the pipeline has a stage, or several that a schedule gives it (PipeShape::rank_of()),
// and one rank or more, its replicas, which share the rows of a micro-batch. Ranks follow one
// another as the places do: the first ones are those of place 0.
class StageRanks {
 public:
  // How many each place has. Throws Error where it is none.
  explicit StageRanks(const std::vector<int>& replicas);

  int ranks() const { return first_.back(); }
  int places() const { return static_cast<int>(first_.size()) - 1; }
  int replicas(int place) const { return rank_of(place + 1) - rank_of(place); }
  int most_replicas() const;
  int rank_of(int place, int replica = 0) const {
    return first_[static_cast<size_t>(place)] + replica;
  }
  int place_of(int rank) const;
  int replica_of(int rank) const { return rank - rank_of(place_of(rank)); }
  RankGroup group(int place) const;

  // A message of a micro-batch: with another rank, of some of the rows that this rank has. None:
  // of all it has, which are the other one's.
  struct Peer {
    int rank = 0;
    std::optional<RowInterval> rows;
  };
  // What a rank sends to another place, and what it receives from one, of so many rows in all.
  std::vector<Peer> receivers(int rank, int place, int64_t rows) const;
  std::vector<Peer> senders(int rank, int place, int64_t rows) const;

 private:
  std::vector<Peer> peers(int rank, int place, int64_t rows, bool sends) const;

  std::vector<int> first_;  // of each place, and the end
};

}  // namespace ndtrain
