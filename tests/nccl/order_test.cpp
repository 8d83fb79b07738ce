// Collectives on devices between a Communicator's ranks: the library is called in the planned
// order, however late streams are, and whatever is released first.
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "framework/comm/library_calls.h"
#include "tests/nccl/nccl_ranks.h"

namespace ndtrain::nccl_tests {
namespace {

using comm_tests::first_ranks;
using comm_tests::run_ranks;
using ::testing::HasSubstr;
using Kind = CommOp::Kind;

constexpr std::chrono::minutes kStall(5);

class NcclOrder : public OnNcclFakes {};

// What all ranks plan, from a seed. Data are small whole numbers, whose sums are exact.
class PlannedOps {
 public:
  PlannedOps(int ranks, uint64_t seed) : ranks_(ranks) {
    std::mt19937_64 rng(seed);
    constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                               Kind::kReduce, Kind::kBroadcast};
    for (int i = 0; i < 8; ++i) {
      CommOp op{.kind = kKinds[rng() % 5], .group = first_ranks(ranks), .native = true};
      op.name = "op " + std::to_string(i);
      op.root = static_cast<int>(rng() % static_cast<uint64_t>(ranks));
      const auto count = static_cast<uint64_t>(ranks);
      sizes_.push_back(rng() % 2 == 0 ? count * (1 + rng() % 9) : 1 + rng() % 40);
      ops_.push_back(op);
    }
  }

  size_t size() const { return ops_.size(); }
  size_t values(size_t op) const { return sizes_[op]; }
  CommOp op(size_t i) const { return ops_[i]; }
  static float value(size_t op, int rank, size_t at) {
    return static_cast<float>((op * 31 + static_cast<size_t>(rank) * 7 + at) % 64);
  }

  // What the rank has after it.
  std::vector<float> expected(size_t i, int rank) const {
    const std::vector<int64_t> parts =
        equal_parts(static_cast<int64_t>(sizes_[i]), static_cast<size_t>(ranks_));
    std::vector<float> values;
    for (size_t at = 0; at < sizes_[i]; ++at) {
      int owner = 0;
      while (static_cast<int64_t>(at) >= parts[static_cast<size_t>(owner) + 1]) ++owner;
      const Kind kind = ops_[i].kind;
      if (kind == Kind::kReduce || kind == Kind::kBroadcast) owner = ops_[i].root;
      const bool gathers = kind == Kind::kAllGather || kind == Kind::kBroadcast;
      const bool sums = kind == Kind::kAllReduce || (!gathers && owner == rank);
      float v = value(i, gathers ? owner : rank, at);
      for (int r = 0; sums && r < ranks_; ++r) v += r == rank ? 0 : value(i, r, at);
      values.push_back(v);
    }
    return values;
  }

  // In the fake's words, in the planned order.
  std::vector<std::string> calls() const {
    std::vector<std::string> all;
    std::vector<float> memory(64);
    for (size_t i = 0; i < size(); ++i) {
      CommOp op = ops_[i];
      op.data = std::span(memory).first(sizes_[i]);
      for (const LibraryCall& call : calls_on_device(checked(op, 0), 0)) {
        static const std::map<LibraryCollective, std::string> kNames = {
            {LibraryCollective::kAllReduce, "AllReduce"},
            {LibraryCollective::kReduceScatter, "ReduceScatter"},
            {LibraryCollective::kAllGather, "AllGather"},
            {LibraryCollective::kReduce, "Reduce"},
            {LibraryCollective::kBroadcast, "Broadcast"}};
        const bool rooted = call.what >= LibraryCollective::kReduce;
        all.push_back(kNames.at(call.what) + " " +
                      std::to_string(std::min(call.in.size(), call.out.size())) +
                      (rooted ? " at " + std::to_string(call.root) : ""));
      }
    }
    return all;
  }

 private:
  const int ranks_;
  std::vector<CommOp> ops_;
  std::vector<size_t> sizes_;
};

// Gradients of a rank, written by streams of the device, late.
class LateGradients {
 public:
  LateGradients(const PlannedOps& planned, int rank) : planned_(planned), rank_(rank) {
    cudaSetDevice(rank);
    for (cudaStream_t& s : streams_) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (size_t i = 0; i < planned.size(); ++i) {
      data_.push_back(
          std::make_unique<DeviceFloats>(std::vector<float>(planned.values(i), -1000.0F)));
    }
  }
  ~LateGradients() {
    for (cudaStream_t s : streams_) cudaStreamDestroy(s);
  }
  LateGradients(const LateGradients&) = delete;
  LateGradients& operator=(const LateGradients&) = delete;

  CommOp op(size_t i) const {
    CommOp op = planned_.op(i);
    op.data = data_[i]->span();
    op.after = stream(i);
    return op;
  }
  void compute(size_t i) const {
    fake::enqueue(stream(i), "gradient", [this, i] {
      for (size_t at = 0; at < data_[i]->span().size(); ++at) {
        data_[i]->span()[at] = PlannedOps::value(i, rank_, at);
      }
    });
  }
  std::vector<float> values(size_t i) const { return data_[i]->values(); }
  // Each rank has its own.
  std::vector<size_t> order_of_arrival(uint64_t seed) const {
    std::vector<size_t> order(planned_.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 rng(seed * 100 + static_cast<uint64_t>(rank_));
    std::ranges::shuffle(order, rng);
    return order;
  }

 private:
  cudaStream_t stream(size_t i) const { return streams_[i % 2]; }

  const PlannedOps& planned_;
  const int rank_;
  cudaStream_t streams_[2] = {};
  std::vector<std::unique_ptr<DeviceFloats>> data_;
};

TEST_F(NcclOrder, IsThePlannedOneHoweverLateStreamsAre) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    fake::reset();
    fake::reset_nccl();
    auto transports = nccl_transports(ranks);
    fake::set_late(seed);
    const PlannedOps planned(ranks, seed);
    const Communicator::Options options{.in_flight = 1 + static_cast<int>(seed % 2),
                                        .stall = kStall};
    run_ranks(std::move(transports), options, [&](Communicator& comm) {
      const LateGradients late(planned, comm.rank());
      std::vector<Communicator::Op> ops;
      for (size_t i = 0; i < planned.size(); ++i) ops.push_back(comm.enqueue(late.op(i)));
      for (const size_t i : late.order_of_arrival(seed)) {
        late.compute(i);
        comm.release(ops[i]);
      }
      for (size_t i = 0; i < planned.size(); ++i) {
        comm.wait(ops[i]);
        EXPECT_EQ(late.values(i), planned.expected(i, comm.rank()))
            << "seed " << seed << ", " << planned.op(i).name << " on rank " << comm.rank();
      }
      comm_tests::carry_out(
          comm, {.kind = Kind::kBarrier, .group = first_ranks(ranks), .name = "barrier"});
    });
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(fake::nccl_calls(r), planned.calls()) << "seed " << seed << ", rank " << r;
    }
  }
}

// The planted bug: what arrives first begins first.
TEST_F(NcclOrder, ByArrivalInsteadOfThePlanIsSeen) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    fake::reset();
    fake::reset_nccl();
    const PlannedOps planned(2, seed);
    std::atomic<int> lost = 0, seen = 0;
    run_ranks(nccl_transports(2), {.stall = kStall}, [&](Communicator& comm) {
      const LateGradients late(planned, comm.rank());
      try {
        for (const size_t i : late.order_of_arrival(seed)) {
          late.compute(i);
          comm_tests::carry_out(comm, late.op(i));
        }
      } catch (const RankLost& e) {
        ++lost;
        if (std::string(e.what()).find("ranks call different collectives") != std::string::npos) {
          ++seen;
        }
      }
    });
    EXPECT_EQ(lost, 2) << "seed " << seed;
    EXPECT_GE(seen, 1) << "seed " << seed << ": who is told of it first may leave the other";
  }
}

TEST_F(NcclOrder, AnErrorOfTheLibraryNamesTheRankAndTheOperation) {
  run_ranks(nccl_transports(2), {.stall = kStall}, [](Communicator& comm) {
    cudaSetDevice(comm.rank());
    if (comm.rank() == 1) {
      while (fake::nccl_calls(0).empty()) std::this_thread::yield();
      return fake::break_nccl(0, ncclRemoteError);
    }
    const DeviceFloats x(std::vector<float>(8, 1.0F));
    try {
      comm_tests::carry_out(comm, {.kind = Kind::kAllReduce,
                                   .group = first_ranks(2),
                                   .name = "AR 3",
                                   .data = x.span(),
                                   .native = true});
      ADD_FAILURE() << "nobody was lost";
    } catch (const RankLost& e) {
      EXPECT_EQ(e.ranks, std::vector<int>{1});
      EXPECT_THAT(e.what(), HasSubstr("'AR 3' lacks"));
    }
    EXPECT_EQ(x.values(), std::vector<float>(8, 1.0F));
  });
}

// The library itself would wait without end.
TEST_F(NcclOrder, ARankThatLeavesEndsWhatWaitsForIt) {
  run_ranks(nccl_transports(3), {.stall = kStall}, [](Communicator& comm) {
    cudaSetDevice(comm.rank());
    if (comm.rank() == 2) return;
    const DeviceFloats x(std::vector<float>(8, 1.0F));
    CommOp op{.kind = Kind::kAllReduce, .group = first_ranks(3), .name = "AR", .native = true};
    op.data = x.span();
    EXPECT_THROW(comm_tests::carry_out(comm, op), RankLost);
  });
}

TEST_F(NcclOrder, SeveralSumsOfARankAreRefused) {
  run_ranks(nccl_transports(2), {.stall = kStall}, [](Communicator& comm) {
    const DeviceFloats x(8), y(8);
    CommOp op{.kind = Kind::kAllReduce, .group = first_ranks(2), .name = "AR", .native = true};
    op.data = x.span();
    op.leaf_begin = comm.rank() == 0 ? std::vector<int>{0, 3, 4} : std::vector<int>{0, 1, 4};
    op.more_subtrees = {y.span().data()};
    try {
      comm.enqueue(op);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("'AR': on a device each rank adds the sum of one subtree"));
    }
  });
}

}  // namespace
}  // namespace ndtrain::nccl_tests
