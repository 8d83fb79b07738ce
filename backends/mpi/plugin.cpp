// The mpi plugin: messages and collectives by MPI 3.1, as Debian's Open MPI has it.
#include <climits>
#include <memory>
#include <string>

#include "backends/mpi/world.h"

struct ndt_comm {
  ndt_mpi::World world;
};

namespace {

using ndt_mpi::error_text;

constexpr int32_t kTags = 32768;  // what every MPI has

std::string why;

ndt_comm_status refuse(ndt_comm_status status, const std::string& reason) {
  why = reason;
  return status;
}

ndt_comm_status answer(int code) {
  return code == MPI_SUCCESS ? NDT_COMM_OK : refuse(NDT_COMM_LOST, error_text(code));
}

const char* last_error() { return why.c_str(); }

ndt_comm_status world(const void* id, size_t, int32_t, int32_t, ndt_comm** comm) {
  if (id) return refuse(NDT_COMM_UNSUPPORTED, "a world of MPI is what mpirun or srun makes");
  int begun = 0;
  MPI_Initialized(&begun);
  if (begun) return refuse(NDT_COMM_INVALID, "MPI is begun once in a process");
  int level = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
      code != MPI_SUCCESS) {
    return answer(code);
  }
  if (level < MPI_THREAD_SERIALIZED) {
    return refuse(NDT_COMM_UNSUPPORTED,
                  "this MPI is called by one thread only; "
                  "MPI_THREAD_SERIALIZED is needed");
  }
  auto opened = std::make_unique<ndt_comm>();
  if (const int code = opened->world.open(); code != MPI_SUCCESS) return answer(code);
  *comm = opened.release();
  return NDT_COMM_OK;
}

int32_t rank(const ndt_comm* comm) { return comm->world.rank(); }
int32_t size(const ndt_comm* comm) { return comm->world.size(); }
const char* host(const ndt_comm* comm, int32_t r) { return comm->world.host(r); }

void close(ndt_comm* comm) {
  comm->world.close();
  delete comm;
}

void abandon(ndt_comm* comm) { delete comm; }

ndt_comm_status send(ndt_comm* comm, int32_t to, int32_t tag, const void* from, uint64_t bytes,
                     void*, uint64_t request) {
  return answer(comm->world.begin(request, [&](MPI_Request* slot) {
    return MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, tag, comm->world.comm(), slot);
  }));
}

ndt_comm_status receive(ndt_comm* comm, int32_t from, int32_t tag, void* into, uint64_t bytes,
                        void*, uint64_t request) {
  return answer(comm->world.begin(request, [&](MPI_Request* slot) {
    return MPI_Irecv(into, static_cast<int>(bytes), MPI_BYTE, from, tag, comm->world.comm(), slot);
  }));
}

ndt_comm_status test_some(ndt_comm* comm, ndt_comm_done* done, int32_t room, int32_t* n) {
  return answer(comm->world.test_some(done, room, n));
}

// Null: it can be.
const char* why_not(uint64_t count, ndt_comm_type type) {
  if (type != NDT_COMM_F32) return "MPI adds up f32 only";
  return count > INT_MAX ? "MPI's collectives have 2147483647 elements of a rank at most" : nullptr;
}

template <typename Begin>
ndt_comm_status collective(ndt_comm* comm, uint64_t count, ndt_comm_type type, uint64_t request,
                           Begin&& begin) {
  if (const char* const reason = why_not(count, type)) return refuse(NDT_COMM_INVALID, reason);
  return answer(comm->world.begin(request, [&](MPI_Request* slot) {
    return begin(static_cast<int>(count), comm->world.comm(), slot);
  }));
}

ndt_comm_status reduce_scatter(ndt_comm* comm, const void* in, void* out, uint64_t count,
                               ndt_comm_type type, void*, uint64_t request) {
  return collective(comm, count, type, request, [&](int n, MPI_Comm world, MPI_Request* slot) {
    return MPI_Ireduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, world, slot);
  });
}

ndt_comm_status all_gather(ndt_comm* comm, const void* in, void* out, uint64_t count,
                           ndt_comm_type type, void*, uint64_t request) {
  const auto own = static_cast<uint64_t>(comm->world.rank()) * count;
  const void* const from = in == static_cast<float*>(out) + own ? MPI_IN_PLACE : in;
  return collective(comm, count, type, request, [&](int n, MPI_Comm world, MPI_Request* slot) {
    return MPI_Iallgather(from, n, MPI_FLOAT, out, n, MPI_FLOAT, world, slot);
  });
}

ndt_comm_status all_reduce(ndt_comm* comm, const void* in, void* out, uint64_t count,
                           ndt_comm_type type, void*, uint64_t request) {
  const void* const from = in == out ? MPI_IN_PLACE : in;
  return collective(comm, count, type, request, [&](int n, MPI_Comm world, MPI_Request* slot) {
    return MPI_Iallreduce(from, out, n, MPI_FLOAT, MPI_SUM, world, slot);
  });
}

const char* library() {
  static const std::string text = [] {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string all(version);
    return all.substr(0, all.find_first_of(",\n"));
  }();
  return text.c_str();
}

const ndt_comm_plugin& plugin() {
  static const ndt_comm_plugin p{.version = NDT_COMM_VERSION,
                                 .name = "mpi",
                                 .library = library(),
                                 .tags = kTags,
                                 .most_bytes = INT_MAX,
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
                                 .reduce_scatter = reduce_scatter,
                                 .all_gather = all_gather,
                                 .all_reduce = all_reduce};
  return p;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ndt_comm_plugin* ndt_comm_main(
    int32_t version) {
  return version == NDT_COMM_VERSION ? &plugin() : nullptr;
}
