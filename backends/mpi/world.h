// This process in what mpirun or srun has started, and what MPI has been given to do there.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "framework/comm/comm_abi.h"

namespace ndt_mpi {

// One thread at a time makes calls (MPI_THREAD_SERIALIZED). Functions answer an MPI error code.
class World {
 public:
  // Of MPI_COMM_WORLD, which must have been initialised. All ranks do.
  int open();
  // Ends MPI, with nothing under way; all ranks do.
  void close();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  const char* host(int rank) const { return hosts_[static_cast<size_t>(rank)].c_str(); }
  MPI_Comm comm() const { return comm_; }

  // Where a function begins an operation: it writes to `slot`.
  template <typename Begin>
  int begin(uint64_t request, Begin&& begin_in) {
    MPI_Request slot = MPI_REQUEST_NULL;
    const int code = begin_in(&slot);
    if (code != MPI_SUCCESS) return code;
    under_way_.push_back(slot);
    requests_.push_back(request);
    return code;
  }
  int test_some(ndt_comm_done* done, int room, int* n);

 private:
  int learn_hosts();
  void turn(size_t tested);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<std::string> hosts_;
  std::vector<MPI_Request> under_way_;
  std::vector<uint64_t> requests_;  // the host's numbers of those
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

// In MPI's words.
std::string error_text(int code);

}  // namespace ndt_mpi
