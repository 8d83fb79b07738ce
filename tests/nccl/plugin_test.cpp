// The nccl plugin behind the interface of communication plugins.
#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "tests/nccl/nccl_ranks.h"

namespace ndtrain::nccl_tests {
namespace {

using ::testing::HasSubstr;

// One rank's world, and what it is asked for.
class Rank {
 public:
  Rank(ndt_comm* comm) : comm_(comm) {}

  ndt_comm* comm() const { return comm_; }
  int rank() const { return nccl().rank(comm_); }
  int size() const { return nccl().size(comm_); }
  void begin(ndt_comm_status s) const { EXPECT_EQ(s, NDT_COMM_OK) << nccl().last_error(); }
  // How each ended, in the order in which they did.
  std::vector<ndt_comm_done> wait(size_t operations) const {
    std::vector<ndt_comm_done> ended;
    while (ended.size() < operations) {
      ndt_comm_done done[2];
      int32_t n = 0;
      if (nccl().test_some(comm_, done, 2, &n) != NDT_COMM_OK) break;
      ended.insert(ended.end(), done, done + n);
    }
    return ended;
  }

 private:
  ndt_comm* comm_;
};

class NcclPlugin : public OnNcclFakes {
 protected:
  static void run(int ranks, const std::function<void(const Rank&)>& body) {
    fake::set_devices(std::vector<fake::DeviceKind>(static_cast<size_t>(ranks)));
    char id[1024];
    size_t id_bytes = sizeof id;
    ASSERT_EQ(nccl().unique_id(id, &id_bytes), NDT_COMM_OK);
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        char device[64];
        ndt_comm* comm = nullptr;
        ASSERT_EQ(nccl().use_device(r, device, sizeof device), NDT_COMM_OK);
        ASSERT_EQ(nccl().world(id, id_bytes, r, ranks, &comm), NDT_COMM_OK) << nccl().last_error();
        body(Rank(comm));
      });
    }
  }
};

TEST_F(NcclPlugin, SaysWhatItIs) {
  EXPECT_STREQ(nccl().name, "nccl");
  EXPECT_STREQ(nccl().library, "NCCL 2.28.9");
  EXPECT_EQ(nccl().device_memory, 1);
  EXPECT_EQ(nccl().tags, 0);
}

TEST_F(NcclPlugin, NamesEveryDeviceDifferently) {
  fake::set_devices(std::vector<fake::DeviceKind>(3));
  std::set<std::string> names;
  for (int d = 0; d < 3; ++d) {
    char name[64];
    ASSERT_EQ(nccl().use_device(d, name, sizeof name), NDT_COMM_OK);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 3);
  EXPECT_THAT(*names.begin(), ::testing::MatchesRegex("GPU-[0-9a-f]+(-[0-9a-f]+){4}"));
}

TEST_F(NcclPlugin, ADeviceThatIsNotThereIsRefused) {
  char name[64];
  EXPECT_EQ(nccl().use_device(1, name, sizeof name), NDT_COMM_INVALID);
  EXPECT_THAT(nccl().last_error(), HasSubstr("there is no device 1, only 1"));
  fake::set_driver_error(cudaErrorInsufficientDriver);
  EXPECT_EQ(nccl().use_device(0, name, sizeof name), NDT_COMM_LOST);
  EXPECT_THAT(nccl().last_error(), HasSubstr("driver version is insufficient"));
}

TEST_F(NcclPlugin, AWorldWithoutAnIdIsRefused) {
  ndt_comm* comm = nullptr;
  EXPECT_EQ(nccl().world(nullptr, 0, -1, -1, &comm), NDT_COMM_UNSUPPORTED);
  EXPECT_EQ(nccl().world("short", 5, 0, 1, &comm), NDT_COMM_INVALID);
  EXPECT_THAT(nccl().last_error(), HasSubstr("an id of 5 bytes"));
}

TEST_F(NcclPlugin, EveryCollectiveGivesWhatItShould) {
  run(3, [](const Rank& r) {
    constexpr size_t kCount = 5;
    const auto rank = static_cast<size_t>(r.rank());
    const auto values = [](size_t n, float first) {
      std::vector<float> v(n);
      std::iota(v.begin(), v.end(), first);
      return v;
    };
    const float mine = static_cast<float>(100 * rank);
    const DeviceFloats whole(values(kCount, mine)), parts(values(3 * kCount, mine));
    const DeviceFloats reduced(values(kCount, mine)), sent(values(kCount, mine));
    const DeviceFloats sum(kCount), gathered(3 * kCount);
    ndt_comm* const c = r.comm();
    r.begin(nccl().all_reduce(c, whole.span().data(), whole.span().data(), kCount, NDT_COMM_F32,
                              nullptr, 1));
    r.begin(nccl().reduce_scatter(c, parts.span().data(), sum.span().data(), kCount, NDT_COMM_F32,
                                  nullptr, 2));
    std::ranges::copy(values(kCount, mine), gathered.span().begin() + rank * kCount);
    r.begin(nccl().all_gather(c, gathered.span().data() + rank * kCount, gathered.span().data(),
                              kCount, NDT_COMM_F32, nullptr, 3));
    r.begin(nccl().reduce(c, reduced.span().data(), reduced.span().data(), kCount, NDT_COMM_F32, 2,
                          nullptr, 4));
    r.begin(nccl().broadcast(c, sent.span().data(), sent.span().data(), kCount, NDT_COMM_F32, 1,
                             nullptr, 5));
    const std::vector<ndt_comm_done> done = r.wait(5);
    ASSERT_EQ(done.size(), 5) << nccl().last_error();
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(done[i].request, i + 1);
    for (size_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<float>(i);
      EXPECT_EQ(whole.span()[i], 3 * at + 300);
      EXPECT_EQ(sum.span()[i], 3 * static_cast<float>(rank * kCount + i) + 300);
      EXPECT_EQ(reduced.span()[i], rank == 2 ? 3 * at + 300 : at + mine);
      EXPECT_EQ(sent.span()[i], at + 100);
      for (size_t q = 0; q < 3; ++q) {
        EXPECT_EQ(gathered.span()[q * kCount + i], at + static_cast<float>(100 * q));
      }
    }
    nccl().close(c);
  });
}

TEST_F(NcclPlugin, MessagesOfAPairAreMatchedByTheirOrder) {
  run(3, [](const Rank& r) {
    constexpr size_t kCount = 64;
    const int next = (r.rank() + 1) % 3, before = (r.rank() + 2) % 3;
    const float first = static_cast<float>(r.rank()), second = first + 10;
    const DeviceFloats a(std::vector<float>(kCount, first)), b(std::vector<float>(kCount, second));
    const DeviceFloats got_a(kCount), got_b(kCount);
    constexpr uint64_t kBytes = kCount * sizeof(float);
    r.begin(nccl().group_begin(r.comm()));
    r.begin(nccl().send(r.comm(), next, 0, a.span().data(), kBytes, nullptr, 1));
    r.begin(nccl().send(r.comm(), next, 0, b.span().data(), kBytes, nullptr, 2));
    r.begin(nccl().receive(r.comm(), before, 0, got_a.span().data(), kBytes, nullptr, 3));
    r.begin(nccl().receive(r.comm(), before, 0, got_b.span().data(), kBytes, nullptr, 4));
    r.begin(nccl().group_end(r.comm()));
    const std::vector<ndt_comm_done> done = r.wait(4);
    ASSERT_EQ(done.size(), 4) << nccl().last_error();
    EXPECT_EQ(done[0].bytes, 0);
    EXPECT_EQ(done[3].request, 4);
    EXPECT_EQ(done[3].bytes, kBytes);
    const auto theirs = static_cast<float>(before);
    EXPECT_EQ(got_a.values(), std::vector<float>(kCount, theirs));
    EXPECT_EQ(got_b.values(), std::vector<float>(kCount, theirs + 10));
    nccl().close(r.comm());
  });
}

TEST_F(NcclPlugin, AWorldIsSplitByColourAndKey) {
  run(5, [](const Rank& r) {
    ndt_comm* half = nullptr;
    EXPECT_EQ(nccl().split(r.comm(), -1, 0, &half), NDT_COMM_INVALID);
    ASSERT_EQ(nccl().split(r.comm(), r.rank() % 2, -r.rank(), &half), NDT_COMM_OK)
        << nccl().last_error();
    const Rank h(half);
    EXPECT_EQ(h.size(), r.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(h.rank(), r.rank() % 2 == 0 ? (4 - r.rank()) / 2 : (3 - r.rank()) / 2);
    const DeviceFloats x(std::vector<float>(7, static_cast<float>(r.rank())));
    h.begin(nccl().all_reduce(half, x.span().data(), x.span().data(), 7, NDT_COMM_F32, nullptr, 9));
    ASSERT_EQ(h.wait(1).size(), 1) << nccl().last_error();
    EXPECT_EQ(x.values(), std::vector<float>(7, r.rank() % 2 == 0 ? 6.0F : 4.0F));
    nccl().close(half);
    nccl().close(r.comm());
  });
}

// The sum is of what the stream writes, which it does late; and nobody waits in the host.
TEST_F(NcclPlugin, AnOperationWaitsOnTheDeviceForTheStreamItFollows) {
  fake::set_late(3);
  run(2, [](const Rank& r) {
    fake::forget_calls();
    const DeviceFloats x(std::vector<float>(16, 0.0F));
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int step = 1; step <= 20; ++step) {
      const auto value = static_cast<float>(step * (r.rank() + 1));
      fake::enqueue(stream, "gradient", [&x, value] { std::ranges::fill(x.span(), value); });
      r.begin(nccl().all_reduce(r.comm(), x.span().data(), x.span().data(), 16, NDT_COMM_F32,
                                stream, static_cast<uint64_t>(step)));
      ASSERT_EQ(r.wait(1).size(), 1) << nccl().last_error();
      EXPECT_EQ(x.values(), std::vector<float>(16, static_cast<float>(3 * step)));
    }
    EXPECT_EQ(fake::count("cudaStreamSynchronize") + fake::count("cudaEventSynchronize"), 0);
    nccl().close(r.comm());
    cudaStreamDestroy(stream);
  });
}

TEST_F(NcclPlugin, AnErrorOfTheWorldIsLoss) {
  run(2, [](const Rank& r) {
    if (r.rank() == 1) return nccl().abandon(r.comm());
    const DeviceFloats x(std::vector<float>(4, 1.0F));
    r.begin(
        nccl().all_reduce(r.comm(), x.span().data(), x.span().data(), 4, NDT_COMM_F32, nullptr, 1));
    ndt_comm_done done;
    int32_t n = 0;
    EXPECT_EQ(nccl().test_some(r.comm(), &done, 1, &n), NDT_COMM_OK);
    EXPECT_EQ(n, 0) << "who waits for a rank that is gone waits on";
    fake::break_nccl(0, ncclRemoteError);
    EXPECT_EQ(nccl().test_some(r.comm(), &done, 1, &n), NDT_COMM_LOST);
    EXPECT_THAT(nccl().last_error(), HasSubstr("remote process exited"));
    nccl().abandon(r.comm());
    EXPECT_EQ(x.values(), std::vector<float>(4, 1.0F));
  });
}

TEST_F(NcclPlugin, MemoryOfTheHostIsRefused) {
  run(1, [](const Rank& r) {
    std::vector<float> x(4);
    EXPECT_EQ(nccl().all_reduce(r.comm(), x.data(), x.data(), 4, NDT_COMM_F32, nullptr, 1),
              NDT_COMM_INVALID);
    EXPECT_THAT(nccl().last_error(), HasSubstr("ncclAllReduce: invalid argument"));
    nccl().abandon(r.comm());
  });
}

}  // namespace
}  // namespace ndtrain::nccl_tests
