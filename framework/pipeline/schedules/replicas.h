// How the replicas of a stage share out the rows of a batch, and what those of two stages have to
// say to each other.
#pragma once

#include <cstdint>
#include <vector>

namespace ndtrain {

struct RowInterval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const RowInterval&) const = default;
};

// Replica r of n has floor((batch + r) / n) rows, behind those of the replicas before it: 256 rows
// are 85, 85, 86 of three. Throws Error where there is no such replica, or fewer rows than
// replicas.
RowInterval rows_of(int64_t batch, int replica, int replicas);

struct RowTransfer {
  int from = 0, to = 0;  // replicas
  RowInterval rows;      // of the batch
  bool operator==(const RowTransfer&) const = default;
};

// Who has rows that whom needs: each row once, in the order of the rows. Gradients go the same way
// back. Throws Error as rows_of().
std::vector<RowTransfer> route(int64_t batch, int from_replicas, int to_replicas);

}  // namespace ndtrain
