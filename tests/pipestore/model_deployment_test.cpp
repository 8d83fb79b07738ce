#include "ndp/pipestore/model_deployment.h"

#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "tests/pipestore/service_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using testing::NoPhotos;
using testing::WelcomedStore;

TEST(ModelDeployment, AVersionThatDidNotFitOnTheDiskIsTriedAgain) {
  NoPhotos producer;
  WelcomedStore store(producer);
  PipeStoreService& service = store.service;
  wire::ToStore m;
  m.set_term(1);

  const Digest extractor = sha256("an extractor");
  publish(store.fs, service.model_path(extractor), "an extractor").or_throw();
  store.fs.set_capacity(0);
  m.mutable_publish()->set_version(3);
  m.mutable_publish()->set_extractor(bytes_of(extractor));
  service.handle({store.link, m});
  store.lanes.run();
  EXPECT_EQ(service.in_force().at("default").version, 0U);

  store.fs.set_capacity(1 << 20);
  store.clock.advance(service.next() - store.clock.monotonic());
  service.tick();
  store.lanes.run();
  EXPECT_EQ(service.in_force().at("default").version, 3U);
  EXPECT_TRUE(store.sent.back().has_in_force());
}

// What a store has been given, and how it answers what it is asked.
class DamagedModels : public ::testing::Test {
 protected:
  void damage() {
    const std::string path = store_.service.model_path(model_);
    std::string bytes = store_.fs.read(path).or_throw();
    bytes[bytes.size() / 2] ^= 1;
    support::write_file(store_.fs, path, bytes);
  }
  void give() {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_model_part()->set_sha256(bytes_of(model_));
    m.mutable_model_part()->set_total(bytes_.size());
    m.mutable_model_part()->set_bytes(bytes_);
    m.mutable_model_part()->set_checksum(xxh3(bytes_.data(), bytes_.size()));
    store_.service.handle({store_.link, m});
    if (spoils_) damage();
    store_.lanes.run();
  }
  void publish_version(uint64_t version) {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_publish()->set_version(version);
    m.mutable_publish()->set_extractor(bytes_of(model_));
    store_.service.handle({store_.link, m});
    store_.lanes.run();
  }
  void ask_for_job() {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_job()->set_job(7);
    m.mutable_job()->set_extractor(bytes_of(model_));
    store_.service.handle({store_.link, m});
    store_.lanes.run();
  }
  bool wanted() const { return store_.sent.back().has_model_wanted(); }

  const std::string bytes_ = "an extractor of some bytes";
  const Digest model_ = sha256(bytes_);
  NoPhotos producer_;
  WelcomedStore store_{producer_};
  bool spoils_ = false;  // the disk, whatever comes
};

TEST_F(DamagedModels, AreFetchedAgainBeforeAJobUsesThem) {
  publish_version(1);
  give();
  ASSERT_EQ(store_.service.in_force().at("default").version, 1U);
  damage();
  ask_for_job();
  ASSERT_TRUE(wanted());
  give();
  EXPECT_TRUE(store_.sent.back().has_inventory()) << store_.sent.back().DebugString();
}

TEST_F(DamagedModels, AreFetchedAgainBeforeTheyAreInForceOnceMore) {
  publish_version(1);
  give();
  damage();
  publish_version(2);
  EXPECT_EQ(store_.service.in_force().at("default").version, 1U);
  ASSERT_TRUE(wanted());
  give();
  EXPECT_EQ(store_.service.in_force().at("default").version, 2U);
}

TEST_F(DamagedModels, AreNotInForceAfterTheNextStart) {
  publish_version(1);
  give();
  damage();
  const PipeStoreService again(
      {store_.fs, store_.clock, store_.state, store_.lanes, producer_, store_.dial}, {}, 1);
  EXPECT_EQ(again.in_force().at("default").version, 0U) << "the Tuner sends it again";
}

TEST_F(DamagedModels, OnADiskThatDamagesThemAgainAndAgainAreGivenUp) {
  publish_version(1);
  give();
  damage();
  ask_for_job();
  for (int i = 1; i < ModelFetch::kCorruptModels; ++i) {
    ASSERT_TRUE(wanted());
    spoils_ = true;
    give();
  }
  ASSERT_TRUE(store_.sent.back().has_refused()) << store_.sent.back().DebugString();
  EXPECT_NE(store_.sent.back().refused().reason().find("is damaged"), std::string::npos);
}

}  // namespace
}  // namespace ndtrain::ndp
