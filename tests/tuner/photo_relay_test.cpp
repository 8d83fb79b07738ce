// A photo's file goes from a store that has it to the one whose disk has changed its own.
#include "tuner/service/photo_relay.h"

#include <gmock/gmock.h>

#include "ndp/wire/digests.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LinkId kAttic = 1, kCellar = 2, kBarn = 3;

// Three stores, of which each says that it holds the photo.
class PhotoRelayTest : public testing::ServiceTest {
 protected:
  void SetUp() override {
    const uint64_t job = service_.submit({.model = to_hex(model_), .stores = 3});
    lanes_.run();
    for (const auto& [link, name] :
         {std::pair(kAttic, "attic"), {kCellar, "cellar"}, {kBarn, "barn"}}) {
      greet_giver(link, name);
      wire::FromStore inventory;
      inventory.mutable_inventory()->set_job(job);
      inventory.mutable_inventory()->set_digests(bytes_of(photo_));
      inventory.mutable_inventory()->add_labels(1);
      inventory.mutable_inventory()->add_names("cat");
      inventory.mutable_inventory()->set_sources(std::string(1, '\2'));
      inventory.mutable_inventory()->set_last(true);
      say(link, inventory);
    }
    lanes_.run();
    links_.sent.clear();
  }
  void greet_giver(LinkId link, const std::string& store) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_gives_photos(true);
    service_.handle({link, hello});
  }
  void want(LinkId link, uint64_t offset = 0) {
    wire::FromStore m;
    m.mutable_photo_wanted()->set_sha256(bytes_of(photo_));
    m.mutable_photo_wanted()->set_offset(offset);
    say(link, m);
  }
  void give(LinkId link, uint64_t offset, const std::string& bytes,
            const std::string& failure = "") {
    wire::FromStore m;
    wire::PhotoPart& part = *m.mutable_photo_part();
    part.set_sha256(bytes_of(photo_));
    part.set_offset(offset);
    part.set_total(100);
    part.set_bytes(bytes);
    part.set_failure(failure);
    say(link, m);
  }
  // Since the last time.
  struct Told {
    std::vector<LinkId> asked;
    std::vector<std::pair<LinkId, wire::PhotoPart>> given;
  };
  Told told() {
    Told told;
    for (const auto& [link, m] : std::exchange(links_.sent, {})) {
      if (m.has_photo_wanted()) told.asked.push_back(link);
      if (m.has_photo_part()) told.given.emplace_back(link, m.photo_part());
    }
    return told;
  }

  inline static const Digest photo_ = sha256("photo");
};

TEST_F(PhotoRelayTest, PartsGoFromOneHolderToWhoWantsThem) {
  want(kBarn);
  EXPECT_THAT(told().asked, ElementsAre(kAttic));
  give(kAttic, 0, "part");
  const Told first = told();
  ASSERT_EQ(first.given.size(), 1U);
  EXPECT_EQ(first.given[0].first, kBarn);
  EXPECT_EQ(first.given[0].second.bytes(), "part");
  EXPECT_EQ(first.given[0].second.total(), 100U);
  want(kBarn, 4);
  EXPECT_THAT(told().asked, ElementsAre(kAttic));
  give(kAttic, 0, "late");
  EXPECT_THAT(told().given, IsEmpty()) << "it is not the part that was asked for";
}

TEST_F(PhotoRelayTest, TheNextHolderIsAskedWhereOneHasNothingOrLeaves) {
  want(kBarn);
  EXPECT_THAT(told().asked, ElementsAre(kAttic));
  give(kAttic, 0, "", "the disk has changed it");
  EXPECT_THAT(told().asked, ElementsAre(kCellar));
  service_.handle({kCellar, LinkClosed{"gone"}});
  const Told end = told();
  ASSERT_EQ(end.given.size(), 1U);
  EXPECT_EQ(end.given[0].first, kBarn);
  EXPECT_THAT(end.given[0].second.failure(), HasSubstr("attic: the disk has changed it"));
}

TEST_F(PhotoRelayTest, WhatNobodyAskedForIsGivenToNobody) {
  give(kAttic, 0, "part");
  EXPECT_THAT(told().given, IsEmpty());
  want(kBarn);
  (void)told();
  give(kCellar, 0, "part");
  EXPECT_THAT(told().given, IsEmpty()) << "another holder is asked";
}

TEST_F(PhotoRelayTest, ADeletedPhotoIsGivenToNobody) {
  service_.delete_photos({&photo_, 1});
  want(kBarn);
  const Told end = told();
  EXPECT_THAT(end.asked, IsEmpty());
  ASSERT_EQ(end.given.size(), 1U);
  EXPECT_THAT(end.given[0].second.failure(), HasSubstr("deleted"));
}

TEST_F(PhotoRelayTest, AStoreThatGivesNoneIsNotAsked) {
  service_.handle({kAttic, LinkClosed{"gone"}});
  service_.handle({kCellar, LinkClosed{"gone"}});
  greet(4, "cellar");  // of an earlier program
  links_.sent.clear();
  want(kBarn);
  const Told end = told();
  EXPECT_THAT(end.asked, IsEmpty());
  ASSERT_EQ(end.given.size(), 1U);
  EXPECT_NE(end.given[0].second.failure(), "");
}

}  // namespace
}  // namespace ndtrain::tuner
