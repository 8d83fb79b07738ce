// How ranks come to a world of NCCL, and who cannot.
#include <gmock/gmock.h>

#include <functional>

#include "framework/core/error.h"
#include "tests/nccl/nccl_ranks.h"

namespace ndtrain::nccl_tests {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class NcclBootstrap : public OnNcclFakes {
 protected:
  // What each rank throws, or the device it has.
  static std::vector<std::string> meet(int ranks,
                                       const std::function<LibraryOffer(int rank)>& offer_of) {
    auto transports = memory_transports(ranks);
    std::vector<std::string> said(static_cast<size_t>(ranks));
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < said.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          const LibraryPlace place =
              join_library(*transports[r], "NCCL", offer_of(static_cast<int>(r)));
          said[r] = "device " + std::to_string(place.device);
          nccl().close(place.world);
        } catch (const Error& e) {
          said[r] = e.what();
        }
      });
    }
    threads.clear();
    return said;
  }
};

TEST_F(NcclBootstrap, RanksOfAMachineTakeItsDevicesInTurn) {
  fake::set_devices(std::vector<fake::DeviceKind>(3));
  EXPECT_THAT(meet(3, [](int) { return LibraryOffer{.plugin = &nccl(), .devices = 3}; }),
              ::testing::ElementsAre("device 0", "device 1", "device 2"));
}

TEST_F(NcclBootstrap, TwoRanksOnOneDeviceAreRefusedByNameBeforeTheLibraryIsAsked) {
  fake::set_devices(std::vector<fake::DeviceKind>(2));
  const auto said = meet(3, [](int) { return LibraryOffer{.plugin = &nccl(), .devices = 2}; });
  EXPECT_THAT(said, Each(AllOf(HasSubstr("ranks 0 and 2 have one device, GPU-01010101-"),
                               HasSubstr("NCCL needs one for each rank"),
                               HasSubstr("CUDA_VISIBLE_DEVICES"))));
}

TEST_F(NcclBootstrap, ARankThatCannotIsNamedByAll) {
  fake::set_devices(std::vector<fake::DeviceKind>(2));
  const auto said = meet(2, [](int rank) {
    return rank == 0 ? LibraryOffer{.plugin = &nccl(), .devices = 2}
                     : LibraryOffer{.why_not = "no communication plugin 'nccl' was found"};
  });
  EXPECT_THAT(said, Each(AllOf(HasSubstr("rank 1"), HasSubstr("cannot talk by NCCL"),
                               HasSubstr("no communication plugin 'nccl' was found"))));
}

TEST_F(NcclBootstrap, ARankThatSeesNoDeviceIsNamed) {
  const auto said = meet(
      2, [](int rank) { return LibraryOffer{.plugin = &nccl(), .devices = rank == 0 ? 1 : 0}; });
  EXPECT_THAT(said, Each(AllOf(HasSubstr("rank 1"), HasSubstr("it sees no device"))));
}

TEST_F(NcclBootstrap, ADeviceThatFailsIsNamed) {
  fake::set_devices(std::vector<fake::DeviceKind>(2));
  fake::fail("cudaGetDeviceProperties", 1, cudaErrorLaunchFailure);
  const auto said = meet(2, [](int) { return LibraryOffer{.plugin = &nccl(), .devices = 2}; });
  EXPECT_THAT(said, Each(HasSubstr("cannot talk by NCCL")));
}

}  // namespace
}  // namespace ndtrain::nccl_tests
