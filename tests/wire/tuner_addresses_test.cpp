// Several addresses of a Tuner.
#include "ndp/wire/tuner_addresses.h"

#include <gmock/gmock.h>

#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

TEST(TunerAddresses, AreOneOrSeveralAndNoneIsEmpty) {
  EXPECT_THAT(tuner_addresses("a:1"), ElementsAre("a:1"));
  EXPECT_THAT(tuner_addresses("a:1,unix:/b"), ElementsAre("a:1", "unix:/b"));
  for (const char* list : {"", ",", "a:1,", ",a:1", "a:1,,b:2"}) {
    EXPECT_THROW(tuner_addresses(list), Error) << list;
  }
}

TEST(TunerAddresses, SeveralAreDialledInQuickerSuccession) {
  EXPECT_EQ(last_retry_of({"a:1"}), StoreSession::kLastRetry);
  EXPECT_EQ(last_retry_of({"a:1", "b:1"}), StoreSession::kLastRetryOfSeveral);
}

}  // namespace
}  // namespace ndtrain::ndp
