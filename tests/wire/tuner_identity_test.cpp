#include "ndp/wire/tuner_identity.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kNow = 1'764'288'000;  // Unix seconds

TEST(TunerIdentity, IsBehindWhenItWasRestoredOrIsAnother) {
  const TunerIdentity known{"tuner", 5, 11};
  EXPECT_FALSE(is_behind({}, {"tuner", kTermsOfRestore + 5, 1})) << "none is known";
  EXPECT_FALSE(is_behind(known, {"tuner", 6, 12}));
  EXPECT_FALSE(is_behind(known, {"tuner", 4 + kTermsOfRestore, 12})) << "it was started often";
  EXPECT_TRUE(is_behind(known, {"tuner", 5 + kTermsOfRestore, 12}));
  EXPECT_TRUE(is_behind(known, {"another", 1, 12}));
}

TEST(TunerIdentity, IsBehindAlsoWhereTheLargestTermIsKnown) {
  EXPECT_FALSE(is_behind({"tuner", UINT64_MAX, 11}, {"tuner", UINT64_MAX, 12}));
  EXPECT_FALSE(is_behind({"tuner", UINT64_MAX, 11}, {"tuner", kTermsOfRestore, 12}));
}

TEST(TunerIdentity, IsBeyondWhenItNeitherCountedNorWasRestoredUpToItsTerm) {
  const TunerIdentity known{"tuner", 5, 11};
  const uint64_t latest = term_of_time(kNow + kClocksDiffer);
  for (const auto& from : {TunerIdentity{}, known, TunerIdentity{"another", latest, 1}}) {
    EXPECT_FALSE(is_beyond(from, {"tuner", 6, 12}, kNow));
    EXPECT_FALSE(is_beyond(from, {"tuner", term_of_time(kNow) + 3, 12}, kNow)) << "restored";
    EXPECT_FALSE(is_beyond(from, {"tuner", latest, 12}, kNow)) << "by a clock that is ahead";
    for (const uint64_t term : {latest + 1, uint64_t{INT64_MAX}, uint64_t{UINT64_MAX}}) {
      EXPECT_TRUE(is_beyond(from, {"tuner", term, 12}, kNow)) << term;
    }
  }
  EXPECT_FALSE(is_beyond({"tuner", latest, 11}, {"tuner", latest + 1, 12}, kNow))
      << "it was started again";
  EXPECT_FALSE(is_beyond({"tuner", 5, 11}, {"tuner", 4 + kTermsOfRestore, 12}, 0))
      << "a clock that has never been set says nothing of terms that are counted";
}

}  // namespace
}  // namespace ndtrain::ndp
