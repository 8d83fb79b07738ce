// The mpi plugin, by mpirun and a program of one rank (mpi_ranks.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/mpirun.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using support::LaunchOutcome;
using ::testing::HasSubstr;

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = support::why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  }
  static LaunchOutcome run(int ranks, const std::string& what) {
    return support::mpirun("-n " + std::to_string(ranks) + " " +
                           support::build_path("/bin/mpi_ranks ") + what);
  }
};

TEST_F(Mpi, SumsAreThoseOfTheTreeOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3}) {
    const LaunchOutcome o = run(ranks, "suite");
    EXPECT_EQ(o.code, 0) << ranks << " ranks: " << o.said;
  }
}

TEST_F(Mpi, SumsOfTheLibraryAreNearThoseOfTheTreeAndTheSameOnAllRanks) {
  for (const int ranks : {1, 2, 3}) {
    const LaunchOutcome o = run(ranks, "native");
    EXPECT_EQ(o.code, 0) << ranks << " ranks: " << o.said;
  }
}

TEST_F(Mpi, ARankThatHasAProblemIsMissedByTheOthers) {
  const LaunchOutcome o = run(2, "error");
  EXPECT_NE(o.code, 0);
  EXPECT_THAT(o.said, HasSubstr("error: this rank has a problem"));
  EXPECT_THAT(o.said, HasSubstr("lacks rank 1"));
}

TEST_F(Mpi, ARankThatIsKilledEndsTheOthers) {
  const LaunchOutcome o = run(3, "killed");
  EXPECT_NE(o.code, 0);
  EXPECT_NE(o.code, 124) << "mpirun did not end by itself: " << o.said;
}

TEST_F(Mpi, ARankThatIsSilentIsNamedAndAllEnd) {
  const LaunchOutcome o = run(2, "stopped");
  EXPECT_EQ(o.code, 4) << o.said;
  EXPECT_THAT(o.said, HasSubstr("lacks rank 1"));
  EXPECT_THAT(o.said, HasSubstr("silent for 2000 ms"));
}

TEST_F(Mpi, ARankThatIsSilentIsNamedByACollectiveOfTheLibrary) {
  const LaunchOutcome o = run(2, "stopped-native");
  EXPECT_EQ(o.code, 4) << o.said;
  EXPECT_THAT(o.said, HasSubstr("'sum' lacks rank 1"));
  EXPECT_THAT(o.said, HasSubstr("silent for 2000 ms"));
}

}  // namespace
}  // namespace ndtrain
