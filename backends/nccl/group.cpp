#include "backends/nccl/group.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ndt_nccl {
namespace {

constexpr size_t kHostBytes = 256;

struct DeviceMemory {
  ~DeviceMemory() { cudaFree(data); }
  void* data = nullptr;
};

// The first that is not OK.
ndt_comm_status all_of(std::initializer_list<ndt_comm_status> each) {
  const auto* const failed = std::ranges::find_if(each, [](auto s) { return s != NDT_COMM_OK; });
  return failed == each.end() ? NDT_COMM_OK : *failed;
}

}  // namespace

ndt_comm_status Group::open(int device, const ncclUniqueId& id, int rank, int ranks) {
  if (const ndt_comm_status s = make_stream(device); s != NDT_COMM_OK) return s;
  rank_ = rank;
  const ncclResult_t result = ncclCommInitRank(&comm_, ranks, id, rank);
  if (result != ncclSuccess) return answer(result, "ncclCommInitRank");
  return learn_hosts(ranks);
}

ndt_comm_status Group::split_from(const Group& of, int color, int key) {
  if (const ndt_comm_status s = make_stream(of.device_); s != NDT_COMM_OK) return s;
  const ncclResult_t result = ncclCommSplit(of.comm_, color, key, &comm_, nullptr);
  if (result != ncclSuccess) return answer(result, "ncclCommSplit");
  int ranks = 0;
  const ndt_comm_status s = all_of({answer(ncclCommCount(comm_, &ranks), "ncclCommCount"),
                                    answer(ncclCommUserRank(comm_, &rank_), "ncclCommUserRank")});
  return s == NDT_COMM_OK ? learn_hosts(ranks) : s;
}

ndt_comm_status Group::make_stream(int device) {
  device_ = device;
  cudaError_t error = cudaSetDevice(device);
  if (!error) error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (!error) error = cudaEventCreateWithFlags(&before_, cudaEventDisableTiming);
  return answer(error, "a stream of the device");
}

// The first operation of all ranks, so that what NCCL connects for it is connected before others
// are waited for.
ndt_comm_status Group::learn_hosts(int ranks) {
  char name[kHostBytes] = {};
  gethostname(name, sizeof name - 1);
  std::vector<char> all(kHostBytes * static_cast<size_t>(ranks));
  DeviceMemory room;
  cudaError_t error = cudaMalloc(&room.data, all.size());
  if (error) return answer(error, "cudaMalloc");
  char* const own = static_cast<char*>(room.data) + kHostBytes * static_cast<size_t>(rank_);
  error = cudaMemcpyAsync(own, name, sizeof name, cudaMemcpyHostToDevice, stream_);
  if (error) return answer(error, "cudaMemcpyAsync");
  const ncclResult_t result = ncclAllGather(own, room.data, kHostBytes, ncclChar, comm_, stream_);
  if (result != ncclSuccess) return answer(result, "ncclAllGather");
  error = cudaMemcpyAsync(all.data(), room.data, all.size(), cudaMemcpyDeviceToHost, stream_);
  if (!error) error = cudaStreamSynchronize(stream_);
  if (error) return answer(error, "the names of the hosts");
  for (size_t at = 0; at < all.size(); at += kHostBytes) hosts_.emplace_back(all.data() + at);
  return NDT_COMM_OK;
}

void Group::close() {
  cudaSetDevice(device_);
  if (comm_) ncclCommDestroy(comm_);
  free_all();
}

// Ends what is under way on the device, without its having been done.
void Group::abandon() {
  cudaSetDevice(device_);
  for (; depth_ > 0; --depth_) ncclGroupEnd();
  if (comm_) ncclCommAbort(comm_);
  free_all();
}

void Group::free_all() {
  for (const Batch& b : under_way_) free_.push_back(b.ended);
  if (before_) free_.push_back(before_);
  for (cudaEvent_t e : free_) cudaEventDestroy(e);
  if (stream_) cudaStreamDestroy(stream_);
}

// A wait is for what was recorded when it was asked for, so that one event does for all.
ndt_comm_status Group::follow(void* after) {
  cudaError_t error = cudaSetDevice(device_);
  if (after) {
    if (!error) error = cudaEventRecord(before_, static_cast<cudaStream_t>(after));
    if (!error) error = cudaStreamWaitEvent(stream_, before_, 0);
  }
  return answer(error, "an event of the stream whose work comes first");
}

ndt_comm_status Group::mark() {
  cudaEvent_t ended = nullptr;
  cudaError_t error = cudaSuccess;
  if (free_.empty()) {
    error = cudaEventCreateWithFlags(&ended, cudaEventDisableTiming);
  } else {
    ended = free_.back();
    free_.pop_back();
  }
  if (error) return answer(error, "cudaEventCreate");
  under_way_.push_back({ended, std::exchange(begun_, {})});
  return answer(cudaEventRecord(ended, stream_), "cudaEventRecord");
}

ndt_comm_status Group::group_begin() {
  const ndt_comm_status s = answer(ncclGroupStart(), "ncclGroupStart");
  if (s == NDT_COMM_OK) ++depth_;
  return s;
}

ndt_comm_status Group::group_end() {
  if (depth_ == 0) return refuse(NDT_COMM_INVALID, "no group has begun");
  --depth_;
  const ndt_comm_status s = answer(ncclGroupEnd(), "ncclGroupEnd");
  return s == NDT_COMM_OK && depth_ == 0 && !begun_.empty() ? mark() : s;
}

ndt_comm_status Group::test_some(ndt_comm_done* done, int32_t room, int32_t* n) {
  *n = 0;
  ncclResult_t failed = ncclSuccess;
  ndt_comm_status s = answer(ncclCommGetAsyncError(comm_, &failed), "ncclCommGetAsyncError");
  if (s == NDT_COMM_OK && failed != ncclSuccess) {
    s = answer(failed, "an operation that was under way");
  }
  if (s != NDT_COMM_OK) return refuse(NDT_COMM_LOST, why);
  cudaSetDevice(device_);
  while (!under_way_.empty() && *n < room) {
    Batch& first = under_way_.front();
    const cudaError_t error = cudaEventQuery(first.ended);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();  // which is no error of whoever asks next
      return NDT_COMM_OK;
    }
    if (error) return answer(error, "an operation that was under way");
    const auto fit = std::min(first.operations.size(), static_cast<size_t>(room - *n));
    const auto end = first.operations.begin() + static_cast<std::ptrdiff_t>(fit);
    std::copy(first.operations.begin(), end, done + *n);
    *n += static_cast<int32_t>(fit);
    first.operations.erase(first.operations.begin(), end);
    if (!first.operations.empty()) return NDT_COMM_OK;
    free_.push_back(first.ended);
    under_way_.pop_front();
  }
  return NDT_COMM_OK;
}

}  // namespace ndt_nccl
