#include "ndp/pipestore/row_jobs.h"

#include <gtest/gtest.h>

#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using RowJobsTest = testing::StoreServiceTest;
using testing::WelcomedStore;

// The first of a job's requests for its model asks for it whole.
TEST(RowJobs, ListsItsPhotosWhileTheModelOfTheJobIsOnItsWay) {
  struct Photos final : RowProducer {
    uint64_t photos() const override { return 1; }
    Result<StoreInventory> scan() override {
      calls += "scan ";
      return StoreInventory{{StorePhoto{.path = "x.jpg"}}, 0};
    }
    Result<RowDelivery::RowSize> open(const wire::Job& job, const std::string&,
                                      const std::string&) override {
      calls += "open" + std::to_string(job.job()) + " ";
      return RowDelivery::RowSize{1};
    }
    Result<Made> make(std::span<const size_t>) override { return Made(); }
    std::string calls;
  } producer;
  WelcomedStore store(producer);
  const std::string bytes = "an extractor";
  const Digest model = sha256(bytes);
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job()->set_job(7);
  m.mutable_job()->set_extractor(bytes_of(model));
  store.sent.clear();
  store.service.handle({store.link, m});
  ASSERT_EQ(store.sent.size(), 1U);
  EXPECT_TRUE(store.sent[0].has_model_wanted());
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan ");
  EXPECT_EQ(store.sent.size(), 1U) << "without a model there is nothing to say";

  // Another job lists them too, and the first one's places would be those of its list.
  wire::ToStore other;
  other.set_term(1);
  other.mutable_job()->set_job(8);
  other.mutable_job()->set_extractor(bytes_of(sha256("another")));
  store.service.handle({store.link, other});
  store.lanes.run();
  m.mutable_model_part()->set_sha256(bytes_of(model));
  m.mutable_model_part()->set_total(bytes.size());
  m.mutable_model_part()->set_bytes(bytes);
  m.mutable_model_part()->set_checksum(xxh3(bytes.data(), bytes.size()));
  store.service.handle({store.link, m});
  store.lanes.run();
  EXPECT_EQ(producer.calls, "scan scan scan open7 ");
  EXPECT_TRUE(store.sent.back().has_inventory());
  EXPECT_EQ(store.sent.back().inventory().job(), 7U);
}

// It was cancelled, or paused: the machine is wanted for something else.
TEST_F(RowJobsTest, WhatWasMadeReadyForAJobGoesWhenItEnds) {
  connect();
  wire::ToStore m;
  m.set_term(1);
  m.mutable_job()->set_job(7);
  service_.handle({link_, m});
  lanes_.run();
  EXPECT_EQ(service_.jobs(), 1U);
  m.mutable_job_end()->set_job(7);
  service_.handle({link_, m});
  EXPECT_EQ(service_.jobs(), 0U);
  EXPECT_EQ(producer_.given_up, 7U) << "what is under way goes on";
  lanes_.run();
  EXPECT_EQ(producer_.closed, 1);
  service_.handle({link_, m});
  m.mutable_job()->set_job(7);
  service_.handle({link_, m});
  m.mutable_job()->set_job(8);
  service_.handle({link_, m});
  m.mutable_job_end()->set_job(7);
  service_.handle({link_, m});
  lanes_.run();
  EXPECT_EQ(producer_.closed, 1) << "another job has begun";
}

TEST_F(RowJobsTest, WhatIsSaidOfAJobSaysWhichAskingItAnswers) {
  connect();
  for (const uint64_t serial : {3, 4}) {
    sent_.clear();
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(7);
    m.mutable_job()->set_serial(serial);
    service_.handle({link_, m});
    lanes_.run();
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_TRUE(sent_[0].has_inventory());
    EXPECT_EQ(sent_[0].answers(), serial);
  }
  wire::ToStore m;
  m.set_term(1);
  m.mutable_wanted()->set_job(7);
  m.mutable_wanted()->set_numbers("\1");  // at no place: it refuses
  service_.handle({link_, m});
  ASSERT_TRUE(sent_.back().has_refused());
  EXPECT_EQ(sent_.back().answers(), 4U);
}

// One photo, of which a row fits no message.
struct LargePhoto final : RowProducer {
  uint64_t photos() const override { return 1; }
  Result<StoreInventory> scan() override {
    return StoreInventory{.photos = {{.digest = sha256("a photo"), .path = "a.jpg"}}};
  }
  Result<RowDelivery::RowSize> open(const wire::Job&, const std::string&,
                                    const std::string&) override {
    return RowDelivery::RowSize{.bytes = kWholeRow + 1, .varies = true};
  }
  Result<Made> make(std::span<const size_t>) override {
    return Made{.rows = {std::string(kWholeRow + 1, 'x')}, .bad = {}};
  }
};

TEST(RowJobs, PiecesAreSentToTunersThatKnowOfThemAndOthersAreToldWhyNot) {
  for (const uint32_t protocol : kProtocols) {
    LargePhoto producer;
    WelcomedStore store(producer, protocol);
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(1);
    m.mutable_job()->set_rows(wire::Job::FILES);
    store.service.handle({store.link, m});
    store.lanes.run();
    m.mutable_wanted()->set_job(1);
    m.mutable_wanted()->set_numbers(pack_numbers(std::vector<uint64_t>{0}));
    m.mutable_wanted()->set_places(pack_numbers(std::vector<uint64_t>{0}));
    store.sent.clear();
    store.service.handle({store.link, m});
    store.lanes.run();
    if (protocol >= kSpeaksOfPieces) {
      ASSERT_EQ(store.sent.size(), kWholeRow / kRowPiece + 2);
      EXPECT_EQ(store.sent[0].rows().lengths(0), kWholeRow + 1);
      EXPECT_TRUE(store.sent.back().has_run_done());
    } else {
      ASSERT_EQ(store.sent.size(), 1U);
      EXPECT_TRUE(store.sent[0].refused().reason().ends_with("upgrade it"))
          << store.sent[0].DebugString();
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
