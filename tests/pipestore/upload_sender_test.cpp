#include "ndp/pipestore/upload_sender.h"

#include <gtest/gtest.h>

#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using testing::WelcomedStore;
using UploadSenderTest = testing::StoreServiceTest;

TEST_F(UploadSenderTest, AreSentInOrderAndOnceWhenTheTunerKeepsThem) {
  upload(3);
  connect();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{1, 2, 3}));
  upload(1);
  service_.tick();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{4}));
  kept(3);
  kept(4);
  service_.tick();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{}));
  EXPECT_EQ(log_->counts().unacknowledged, 0);
}

TEST_F(UploadSenderTest, ThatWereNotAcknowledgedAreSentToTheNextSession) {
  upload(3);
  connect();
  kept(3);
  upload(2);
  service_.tick();
  EXPECT_EQ(sent().size(), 5U);
  service_.handle({link_, LinkClosed{"gone"}});
  connect();
  EXPECT_EQ(sent(), (std::vector<uint64_t>{4, 5}));
}

TEST_F(UploadSenderTest, AreAllSentAgainToATunerThatWasRestoredAndToNoOther) {
  upload(3);
  connect();
  kept(3);
  const auto meet = [this](uint64_t term) {
    service_.handle({link_, LinkClosed{"gone"}});
    wire::ToStore welcome = WelcomedStore::welcome();
    welcome.set_term(term);
    connect(welcome);
    size_t lines = 0;
    for (const wire::FromStore& m : sent_) lines += static_cast<size_t>(m.uploads().lines_size());
    return lines;
  };
  EXPECT_EQ(meet(kTermsOfRestore), 0U) << "it was started very often";
  EXPECT_EQ(meet(2 * kTermsOfRestore), 3U) << "it was restored";
}

TEST_F(UploadSenderTest, NeverHaveMoreUnderWayThanTheWindow) {
  upload(5000);
  connect();
  std::vector<uint64_t> all = sent();
  EXPECT_LT(all.size(), 3000U);
  EXPECT_GT(all.size(), 1900U);
  while (all.size() < 5000) {
    const size_t before = all.size();
    kept(all.back());
    const std::vector<uint64_t> more = sent();
    all.insert(all.end(), more.begin(), more.end());
    ASSERT_GT(all.size(), before);
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
}

TEST_F(UploadSenderTest, TheTunerHearsWhereThereIsRoomAndWhenItChanges) {
  connect();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].space().http(), ":8421");
  EXPECT_EQ(sent_[0].space().free(), 1000U);
  const auto look = [&](uint64_t free) {
    free_ = free;
    clock_.advance(std::chrono::seconds(11));
    service_.tick();
    return sent_.size();
  };
  EXPECT_EQ(look(999), 1U);
  EXPECT_EQ(look(900), 2U);
}

}  // namespace
}  // namespace ndtrain::ndp
