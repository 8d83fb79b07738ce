// The nccl plugin on the devices of this machine, each a rank; for tools/gpu_bundle.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "framework/comm/comm_plugin.h"
#include "framework/comm/communicator.h"
#include "framework/comm/library_transport.h"
#include "framework/comm/library_world.h"
#include "framework/comm/memory_transport.h"

namespace ndtrain {
namespace {

using Kind = CommOp::Kind;
using Values = std::vector<float>;

int devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// A rank's memory, and a stream that writes it.
class Gradients {
 public:
  Gradients(int device, size_t values) : values_(values) {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, values * sizeof(float)), cudaSuccess);
    data_ = static_cast<float*>(memory);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Gradients() {
    cudaStreamDestroy(stream_);
    cudaFree(data_);
  }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  std::span<float> span() const { return {data_, values_}; }
  cudaStream_t stream() const { return stream_; }
  // `from` stays as it is until the stream has come there.
  void write(const Values& from) const {
    EXPECT_EQ(cudaMemcpyAsync(data_, from.data(), values_ * sizeof(float), cudaMemcpyHostToDevice,
                              stream_),
              cudaSuccess);
  }
  Values read() const {
    Values to(values_);
    EXPECT_EQ(cudaMemcpy(to.data(), data_, values_ * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return to;
  }

 private:
  size_t values_;
  float* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

float value(int rank, size_t at) {
  return static_cast<float>((at + 7 * static_cast<size_t>(rank)) % 64);
}

// Small whole numbers, whose sums are exact in any order.
float expected(Kind kind, int rank, int owner, int ranks, size_t at) {
  const bool gathers = kind == Kind::kAllGather || kind == Kind::kBroadcast;
  if (gathers) return value(owner, at);
  if (kind != Kind::kAllReduce && owner != rank) return value(rank, at);
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, at);
  return sum;
}

void expect_all_kinds(Communicator& comm, size_t values) {
  const int ranks = comm.ranks(), me = comm.rank();
  RankGroup group(static_cast<size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  const Gradients gradients(me, values);
  Values mine(values);
  for (size_t at = 0; at < values; ++at) mine[at] = value(me, at);
  for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kReduce,
                          Kind::kBroadcast}) {
    CommOp op{.kind = kind, .group = group, .name = "on devices", .root = ranks - 1};
    op.data = gradients.span();
    op.native = true;
    op.after = gradients.stream();
    const Communicator::Op id = comm.enqueue(op);
    gradients.write(mine);
    comm.release(id);
    comm.wait(id);
    const Values got = gradients.read();
    const bool rooted = kind == Kind::kReduce || kind == Kind::kBroadcast;
    const auto parts = equal_parts(static_cast<int64_t>(values), group.size());
    int owner = 0;
    size_t wrong = 0;
    for (size_t at = 0; at < values; ++at) {
      while (static_cast<int64_t>(at) >= parts[static_cast<size_t>(owner) + 1]) ++owner;
      wrong += got[at] != expected(kind, me, rooted ? ranks - 1 : owner, ranks, at) ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0) << "of " << values << ", kind " << static_cast<int>(kind) << ", rank "
                        << me;
  }
}

void run(int ranks) {
  const ndt_comm_plugin& nccl = find_comm_plugin("nccl");
  auto transports = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&nccl, ranks, t = std::move(transport)]() mutable {
      const LibraryPlace place = join_library(*t, "NCCL", {.plugin = &nccl, .devices = ranks});
      Communicator comm(with_library(std::move(t), nccl, place.world), {.in_flight = 2});
      // Equal parts, and such as differ.
      const auto n = static_cast<size_t>(ranks);
      for (const size_t values : {n, 1024 * n, 1024 * n + 1, size_t{5'000'003}}) {
        expect_all_kinds(comm, values);
      }
      CommOp barrier{.kind = Kind::kBarrier, .group = comm.members(), .name = "barrier"};
      const Communicator::Op id = comm.enqueue(barrier);
      comm.release(id);
      comm.wait(id);
    });
  }
}

TEST(NcclOnDevices, AWorldOfOneRankGivesWhatItShould) {
  if (devices() < 1) GTEST_SKIP() << "no device answers";
  run(1);
}

TEST(NcclOnDevices, ARankOnEachDeviceGivesWhatItShould) {
  if (devices() < 2) GTEST_SKIP() << "two devices are needed, and there are " << devices();
  run(devices());
}

}  // namespace
}  // namespace ndtrain
