// The nccl plugin: messages and collectives between GPUs by NCCL 2.18 or later.
#include <cstring>
#include <memory>
#include <string>

#include "backends/nccl/device.h"
#include "backends/nccl/group.h"

struct ndt_comm {
  ndt_nccl::Group group;
};

namespace {

using ndt_nccl::answer;
using ndt_nccl::refuse;

constexpr uint64_t kMostBytes = uint64_t{1} << 40;

const char* last_error() { return ndt_nccl::why.c_str(); }

ndt_comm_status unique_id(void* id, size_t* id_bytes) {
  ncclUniqueId made;
  if (*id_bytes < sizeof made) return refuse(NDT_COMM_INVALID, "no room for the id of a world");
  *id_bytes = sizeof made;
  const ncclResult_t result = ncclGetUniqueId(&made);
  if (result == ncclSuccess) std::memcpy(id, &made, sizeof made);
  return answer(result, "ncclGetUniqueId");
}

// What was opened, or else nothing is left of it.
ndt_comm_status kept(std::unique_ptr<ndt_comm> opened, ndt_comm_status status, ndt_comm** comm) {
  if (status == NDT_COMM_OK) {
    *comm = opened.release();
  } else {
    const std::string reason = ndt_nccl::why;
    opened->group.abandon();
    return refuse(status, reason);
  }
  return status;
}

ndt_comm_status world(const void* id, size_t id_bytes, int32_t rank, int32_t ranks,
                      ndt_comm** comm) {
  if (!id) return refuse(NDT_COMM_UNSUPPORTED, "no launcher makes a world of NCCL");
  ncclUniqueId theirs;
  if (id_bytes != sizeof theirs || rank < 0 || rank >= ranks) {
    return refuse(NDT_COMM_INVALID, "rank " + std::to_string(rank) + " of " +
                                        std::to_string(ranks) + ", by an id of " +
                                        std::to_string(id_bytes) + " bytes");
  }
  std::memcpy(&theirs, id, sizeof theirs);
  auto opened = std::make_unique<ndt_comm>();
  const ndt_comm_status s = opened->group.open(ndt_nccl::device_in_use(), theirs, rank, ranks);
  return kept(std::move(opened), s, comm);
}

int32_t rank(const ndt_comm* comm) { return comm->group.rank(); }
int32_t size(const ndt_comm* comm) { return comm->group.size(); }
const char* host(const ndt_comm* comm, int32_t r) { return comm->group.host(r); }

void close(ndt_comm* comm) {
  comm->group.close();
  delete comm;
}

void abandon(ndt_comm* comm) {
  comm->group.abandon();
  delete comm;
}

ndt_comm_status split(ndt_comm* of, int32_t color, int32_t key, ndt_comm** comm) {
  if (color < 0) return refuse(NDT_COMM_INVALID, "colour " + std::to_string(color) + ": 0 or more");
  auto opened = std::make_unique<ndt_comm>();
  const ndt_comm_status s = opened->group.split_from(of->group, color, key);
  return kept(std::move(opened), s, comm);
}

ndt_comm_status send(ndt_comm* comm, int32_t to, int32_t, const void* from, uint64_t bytes,
                     void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclSend",
                 [&] { return ncclSend(from, bytes, ncclChar, to, g.comm(), g.stream()); });
}

ndt_comm_status receive(ndt_comm* comm, int32_t from, int32_t, void* into, uint64_t bytes,
                        void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, bytes, stream, "ncclRecv",
                 [&] { return ncclRecv(into, bytes, ncclChar, from, g.comm(), g.stream()); });
}

ndt_comm_status test_some(ndt_comm* comm, ndt_comm_done* done, int32_t room, int32_t* n) {
  return comm->group.test_some(done, room, n);
}

ncclDataType_t nccl_type(ndt_comm_type type) {
  return type == NDT_COMM_F16 ? ncclFloat16 : type == NDT_COMM_BF16 ? ncclBfloat16 : ncclFloat32;
}

ndt_comm_status reduce_scatter(ndt_comm* comm, const void* in, void* out, uint64_t count,
                               ndt_comm_type type, void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclReduceScatter", [&] {
    return ncclReduceScatter(in, out, count, nccl_type(type), ncclSum, g.comm(), g.stream());
  });
}

ndt_comm_status all_gather(ndt_comm* comm, const void* in, void* out, uint64_t count,
                           ndt_comm_type type, void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclAllGather", [&] {
    return ncclAllGather(in, out, count, nccl_type(type), g.comm(), g.stream());
  });
}

ndt_comm_status all_reduce(ndt_comm* comm, const void* in, void* out, uint64_t count,
                           ndt_comm_type type, void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclAllReduce", [&] {
    return ncclAllReduce(in, out, count, nccl_type(type), ncclSum, g.comm(), g.stream());
  });
}

ndt_comm_status reduce(ndt_comm* comm, const void* in, void* out, uint64_t count,
                       ndt_comm_type type, int32_t root, void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclReduce", [&] {
    return ncclReduce(in, out, count, nccl_type(type), ncclSum, root, g.comm(), g.stream());
  });
}

ndt_comm_status broadcast(ndt_comm* comm, const void* in, void* out, uint64_t count,
                          ndt_comm_type type, int32_t root, void* stream, uint64_t request) {
  ndt_nccl::Group& g = comm->group;
  return g.begin(request, 0, stream, "ncclBroadcast", [&] {
    return ncclBroadcast(in, out, count, nccl_type(type), root, g.comm(), g.stream());
  });
}

ndt_comm_status group_begin(ndt_comm* comm) { return comm->group.group_begin(); }
ndt_comm_status group_end(ndt_comm* comm) { return comm->group.group_end(); }

const char* library() {
  static const std::string text = [] {
    int code = 0;
    ncclGetVersion(&code);
    return "NCCL " + std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
           std::to_string(code % 100);
  }();
  return text.c_str();
}

const ndt_comm_plugin& plugin() {
  static const ndt_comm_plugin p{.version = NDT_COMM_VERSION,
                                 .name = "nccl",
                                 .library = library(),
                                 .device_memory = 1,
                                 .tags = 0,
                                 .most_bytes = kMostBytes,
                                 .last_error = last_error,
                                 .world = world,
                                 .rank = rank,
                                 .size = size,
                                 .host = host,
                                 .close = close,
                                 .abandon = abandon,
                                 .send = send,
                                 .receive = receive,
                                 .test_some = test_some,
                                 .use_device = ndt_nccl::use_device,
                                 .unique_id = unique_id,
                                 .split = split,
                                 .reduce_scatter = reduce_scatter,
                                 .all_gather = all_gather,
                                 .all_reduce = all_reduce,
                                 .reduce = reduce,
                                 .broadcast = broadcast,
                                 .group_begin = group_begin,
                                 .group_end = group_end};
  return p;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ndt_comm_plugin* ndt_comm_main(
    int32_t version) {
  return version == NDT_COMM_VERSION ? &plugin() : nullptr;
}
