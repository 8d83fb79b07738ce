// A communicator of NCCL as one rank has it, and what it has been given to do.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <deque>
#include <string>
#include <vector>

#include "backends/nccl/answer.h"
#include "framework/comm/comm_abi.h"

namespace ndt_nccl {

// Everything goes to one stream of its own, in the order in which it was begun, and an event behind
// each operation says when it has ended: no call but open(), split() and close() waits. One thread
// at a time.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // All ranks do; they wait for one another.
  ndt_comm_status open(int device, const ncclUniqueId& id, int rank, int ranks);
  ndt_comm_status split_from(const Group& of, int color, int key);
  void close();  // with nothing under way
  void abandon();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  const char* host(int rank) const { return hosts_[static_cast<size_t>(rank)].c_str(); }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  // `call` gives NCCL an operation, which waits for what `after` has been given so far, a stream of
  // the caller's or null. `bytes`: that a receive gets.
  template <typename Call>
  ndt_comm_status begin(uint64_t request, uint64_t bytes, void* after, const char* name,
                        Call&& call) {
    if (const ndt_comm_status s = follow(after); s != NDT_COMM_OK) return s;
    if (const ndt_comm_status s = answer(call(), name); s != NDT_COMM_OK) return s;
    begun_.push_back({request, NDT_COMM_OK, bytes});
    return depth_ > 0 ? NDT_COMM_OK : mark();
  }
  ndt_comm_status group_begin();
  ndt_comm_status group_end();

  ndt_comm_status test_some(ndt_comm_done* done, int32_t room, int32_t* n);

 private:
  struct Batch {  // what ends together
    cudaEvent_t ended;
    std::vector<ndt_comm_done> operations;
  };

  ndt_comm_status make_stream(int device);
  ndt_comm_status learn_hosts(int ranks);
  ndt_comm_status follow(void* after);
  ndt_comm_status mark();
  void free_all();

  ncclComm_t comm_ = nullptr;
  int device_ = 0, rank_ = 0;
  std::vector<std::string> hosts_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr;      // of other streams' work, used again and again
  std::vector<cudaEvent_t> free_;     // nobody waits for them
  std::vector<ndt_comm_done> begun_;  // since the last mark()
  std::deque<Batch> under_way_;
  int depth_ = 0;  // of group_begin()
};

}  // namespace ndt_nccl
