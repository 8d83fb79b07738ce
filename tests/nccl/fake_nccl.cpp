#include "tests/nccl/fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/cuda/fake_cudart.h"
#include "tests/nccl/fake_nccl_world.h"

using ndtrain::fake::NcclCall;
using ndtrain::fake::NcclKind;
using ndtrain::fake::NcclMember;
using ndtrain::fake::NcclWork;

struct ncclComm {
  std::shared_ptr<NcclMember> member;
  uint64_t collectives = 0;
  std::map<int, uint64_t> sent = {}, received = {};  // by peer
  uint64_t splits = 0;
};

namespace ndtrain::fake {
namespace {

constexpr int kVersion = 22809;

struct Record {
  std::mutex mutex;
  std::map<int, std::vector<std::string>> calls;
  std::map<int, ncclResult_t> errors;
};

Record& record() {
  static Record r;
  return r;
}

thread_local std::string last_text;
thread_local int depth = 0;
thread_local std::vector<std::pair<cudaStream_t, NcclWork>> grouped;

ncclResult_t fail(ncclResult_t result, const std::string& why) {
  last_text = why;
  return result;
}

// All at once, on each stream.
ncclResult_t put(std::vector<std::pair<cudaStream_t, NcclWork>> works) {
  std::map<cudaStream_t, std::vector<NcclWork>> by_stream;
  for (auto& [stream, work] : works) by_stream[stream].push_back(std::move(work));
  for (auto& [stream, list] : by_stream) {
    const std::string name = "nccl" + text_of(list.front().call);
    const cudaError_t error =
        enqueue_until(stream, name.substr(0, name.find(' ')), [list = std::move(list)]() mutable {
          bool done = true;
          for (NcclWork& w : list) done = w.advance() && done;
          return done;
        });
    if (error) return fail(ncclUnhandledCudaError, cudaGetErrorString(error));
  }
  return ncclSuccess;
}

bool lies_on_device(const void* memory, size_t bytes) {
  return bytes == 0 || is_device(memory, bytes);
}

ncclResult_t begin(ncclComm_t comm, const NcclCall& call, const void* in, size_t in_bytes,
                   void* out, size_t out_bytes, cudaStream_t stream) {
  const bool is_message = call.kind == NcclKind::kSend || call.kind == NcclKind::kReceive;
  if (!lies_on_device(in, in_bytes) || !lies_on_device(out, out_bytes)) {
    return fail(ncclInvalidArgument, "memory of " + text_of(call) + " is no device's");
  }
  if (std::max(in_bytes, out_bytes) > (is_message ? kMessageRoom : kRoom)) {
    return fail(ncclInvalidArgument, text_of(call) + " is longer than the fake has room for");
  }
  NcclWork work{.member = comm->member, .call = call, .in = in, .out = out};
  if (is_message) {
    work.number = ++(call.kind == NcclKind::kSend ? comm->sent : comm->received)[call.root];
  } else {
    work.number = ++comm->collectives;
    {
      const std::lock_guard lock(record().mutex);
      if (call.type == ncclFloat) record().calls[comm->member->rank()].push_back(text_of(call));
    }
    const std::string why = comm->member->call(call);
    if (!why.empty()) return fail(ncclInvalidUsage, why);
  }
  if (depth == 0) return put({{stream, std::move(work)}});
  grouped.emplace_back(stream, std::move(work));
  return ncclSuccess;
}

ncclResult_t open(ncclComm_t* comm, const std::string& path, int rank, int ranks) {
  int device = 0;
  cudaGetDevice(&device);
  if (ranks > kMostRanks)
    return fail(ncclInvalidArgument,
                "the fake has room for " + std::to_string(kMostRanks) + " ranks");
  try {
    *comm = new ncclComm{std::make_shared<NcclMember>(path, rank, ranks, device)};
  } catch (const std::exception& e) {
    return fail(ncclInvalidUsage, e.what());
  }
  return ncclSuccess;
}

ncclResult_t sums_only(ncclDataType_t type, ncclRedOp_t op) {
  if (type == ncclFloat && op == ncclSum) return ncclSuccess;
  return fail(ncclInvalidArgument, "the fake adds up f32");
}

NcclCall call_of(NcclKind kind, size_t count, ncclDataType_t type, int root = -1) {
  return {kind, static_cast<int32_t>(type), root, count};
}

template <typename Counts>
void wait_for_all(const Counts& counts, int ranks, uint64_t number) {
  for (int r = 0; r < ranks; ++r) {
    while (counts[r] < number) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

void reset_nccl() {
  const std::lock_guard lock(record().mutex);
  record().calls.clear();
  record().errors.clear();
}

std::vector<std::string> nccl_calls(int rank) {
  const std::lock_guard lock(record().mutex);
  return record().calls[rank];
}

void break_nccl(int rank, ncclResult_t error) {
  const std::lock_guard lock(record().mutex);
  record().errors[rank] = error;
}

}  // namespace ndtrain::fake

using namespace ndtrain::fake;  // NOLINT(google-build-using-namespace): the C functions below

ncclResult_t ncclGetVersion(int* version) {
  *version = kVersion;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string path = NcclMember::make_world();
  if (path.size() >= sizeof id->internal) return fail(ncclSystemError, path + " is too long");
  std::memset(id->internal, 0, sizeof id->internal);
  path.copy(id->internal, path.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return open(comm, id.internal, rank, ranks);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  NcclMember& m = *comm->member;
  SharedWorld& s = m.shared();
  s.color[m.rank()] = color;
  s.key[m.rank()] = key;
  s.splits[m.rank()] = ++comm->splits;
  wait_for_all(s.splits, m.ranks(), comm->splits);
  std::vector<std::pair<int, int>> group;  // by key
  for (int r = 0; r < m.ranks(); ++r) {
    if (s.color[r] == color) group.emplace_back(s.key[r], r);
  }
  std::ranges::sort(group);
  const auto place = std::ranges::find(group, std::pair(key, m.rank())) - group.begin();
  const std::string path =
      m.path() + "-" + std::to_string(comm->splits) + "-" + std::to_string(color);
  if (place == 0) NcclMember::make_world(path);
  s.split[m.rank()] = comm->splits;
  wait_for_all(s.split, m.ranks(), comm->splits);
  return open(made, path, static_cast<int>(place), static_cast<int>(group.size()));
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->member->abort();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->member->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->member->rank();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(record().mutex);
  const auto it = record().errors.find(comm->member->rank());
  const std::string why = comm->member->broken();
  *error = it != record().errors.end() ? it->second
           : why.empty()               ? ncclSuccess
                                       : fail(ncclInvalidUsage, why);
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t) { return last_text.c_str(); }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInvalidArgument:
      return "invalid argument";
    default:
      return "an error that the fake was told to give";
  }
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return fail(ncclInvalidUsage, "no group has begun");
  return --depth == 0 ? put(std::exchange(grouped, {})) : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t r = sums_only(type, op)) return r;
  const size_t bytes = count * size_of_type(type);
  return begin(comm, call_of(NcclKind::kAllReduce, count, type), in, bytes, out, bytes, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t r = sums_only(type, op)) return r;
  const size_t bytes = count * size_of_type(type);
  return begin(comm, call_of(NcclKind::kReduceScatter, count, type), in,
               bytes * static_cast<size_t>(comm->member->ranks()), out, bytes, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of_type(type);
  return begin(comm, call_of(NcclKind::kAllGather, count, type), in, bytes, out,
               bytes * static_cast<size_t>(comm->member->ranks()), stream);
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t r = sums_only(type, op)) return r;
  const size_t bytes = count * size_of_type(type);
  const bool is_root = comm->member->rank() == root;
  return begin(comm, call_of(NcclKind::kReduce, count, type, root), in, bytes, out,
               is_root ? bytes : 0, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of_type(type);
  const bool is_root = comm->member->rank() == root;
  return begin(comm, call_of(NcclKind::kBroadcast, count, type, root), in, is_root ? bytes : 0, out,
               bytes, stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of_type(type);
  return begin(comm, call_of(NcclKind::kSend, bytes, ncclChar, peer), from, bytes, nullptr, 0,
               stream);
}

ncclResult_t ncclRecv(void* into, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const size_t bytes = count * size_of_type(type);
  return begin(comm, call_of(NcclKind::kReceive, bytes, ncclChar, peer), nullptr, 0, into, bytes,
               stream);
}
