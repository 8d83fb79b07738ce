// Files of photos between stores, as one of them sees it; the Tuner is a test.
#include "ndp/pipestore/photo_exchange.h"

#include <gmock/gmock.h>

#include "ndp/wire/digests.h"
#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

class PhotoExchangeTest : public ::testing::Test {
 protected:
  void connect(bool relays = true) {
    service_.tick();
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    wire::ToStore welcome = testing::WelcomedStore::welcome();
    welcome.mutable_welcome()->set_relays_photos(relays);
    service_.handle({link_, welcome});
    service_.tick();
  }
  // What it has asked for since the last time.
  std::optional<wire::PhotoWanted> asked() {
    std::optional<wire::PhotoWanted> wanted;
    for (const wire::FromStore& m : std::exchange(sent_, {})) {
      if (m.has_photo_wanted()) wanted = m.photo_wanted();
    }
    return wanted;
  }
  static wire::PhotoPart part_of(const Digest& photo, const std::string& file, uint64_t from,
                                 size_t n) {
    wire::PhotoPart part;
    part.set_sha256(bytes_of(photo));
    part.set_offset(from);
    part.set_total(file.size());
    part.set_bytes(file.substr(from, n));
    part.set_checksum(xxh3(part.bytes().data(), part.bytes().size()));
    return part;
  }
  void tell(const wire::PhotoPart& part) {
    wire::ToStore m;
    m.set_term(1);
    *m.mutable_photo_part() = part;
    service_.handle({link_, m});
    lanes_.run();
  }
  std::optional<wire::PhotoPart> given(const Digest& photo, uint64_t offset) {
    sent_.clear();
    wire::ToStore m;
    m.set_term(1);
    m.mutable_photo_wanted()->set_sha256(bytes_of(photo));
    m.mutable_photo_wanted()->set_offset(offset);
    service_.handle({link_, m});
    lanes_.run();
    for (const wire::FromStore& sent : sent_) {
      if (sent.has_photo_part()) return sent.photo_part();
    }
    return std::nullopt;
  }
  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "pipestore").or_throw();
  support::WaitingLanes lanes_;
  testing::NoPhotos producer_;
  testing::Sent sent_;
  LinkId link_ = 0;
  std::vector<Digest> damaged_;
  std::map<Digest, std::string> files_;
  int reads_ = 0;
  Status put_;
  PipeStoreService service_{{.fs = fs_,
                             .clock = clock_,
                             .state = state_,
                             .lanes = lanes_,
                             .producer = producer_,
                             .dial =
                                 [this](LinkId id) {
                                   link_ = id;
                                   return std::make_unique<testing::Link>(sent_);
                                 },
                             .files = {.damaged = [this] { return damaged_; },
                                       .read = [this](const Digest& photo) -> Result<std::string> {
                                         ++reads_;
                                         if (files_.contains(photo)) return files_.at(photo);
                                         return Status(Code::kNotFound, "there is no such photo");
                                       },
                                       .put_back =
                                           [this](const Digest& photo, const std::string& file) {
                                             if (!put_.ok()) return put_;
                                             if (sha256(file) != photo)
                                               return Status(Code::kCorrupt, "another photo");
                                             files_[photo] = file;
                                             std::erase(damaged_, photo);
                                             return Status();
                                           }}},
                            {},
                            1};
};

std::string long_file() {
  std::string file;
  for (size_t i = 0; i < 2 * PhotoExchange::kPart + 100; ++i) file += static_cast<char>(i * 7);
  return file;
}

TEST_F(PhotoExchangeTest, ADamagedUploadIsPutRightFromItsParts) {
  const std::string file = long_file();
  const Digest photo = sha256(file);
  damaged_ = {photo};
  connect();
  for (uint64_t from = 0; from < file.size(); from += PhotoExchange::kPart) {
    const auto wanted = asked();
    ASSERT_TRUE(wanted);
    EXPECT_EQ(wanted->sha256(), bytes_of(photo));
    EXPECT_EQ(wanted->offset(), from);
    tell(part_of(photo, file, from, PhotoExchange::kPart));
  }
  EXPECT_EQ(files_.at(photo), file);
  service_.tick();
  EXPECT_FALSE(asked());
}

TEST_F(PhotoExchangeTest, ATunerThatRelaysNoneIsNotAsked) {
  damaged_ = {sha256("x")};
  connect(false);
  EXPECT_FALSE(asked());
}

TEST_F(PhotoExchangeTest, APhotoThatNobodyHasIsAskedForAgainAfterAnHourAndOthersAtOnce) {
  damaged_ = {sha256("x"), sha256("y")};
  connect();
  EXPECT_EQ(asked()->sha256(), bytes_of(sha256("x")));
  wire::PhotoPart none = part_of(sha256("x"), "", 0, 0);
  none.set_failure("nobody has it");
  tell(none);
  service_.tick();
  EXPECT_EQ(asked()->sha256(), bytes_of(sha256("y")));
  tell(part_of(sha256("y"), "y", 0, 1));
  service_.tick();
  EXPECT_FALSE(asked());
  EXPECT_EQ(files_.count(sha256("y")), 1U);
  clock_.advance(PhotoExchange::kBetweenAttempts);
  service_.tick();
  EXPECT_EQ(asked()->sha256(), bytes_of(sha256("x")));
}

TEST_F(PhotoExchangeTest, AnotherFileIsNotWritten) {
  damaged_ = {sha256("x")};
  connect();
  ASSERT_TRUE(asked());
  tell(part_of(sha256("x"), "z", 0, 1));
  EXPECT_TRUE(files_.empty());
  EXPECT_EQ(damaged_.size(), 1U);
}

TEST_F(PhotoExchangeTest, APartThatWasNotAskedForIsNotTaken) {
  damaged_ = {sha256("xyz")};
  connect();
  ASSERT_TRUE(asked());
  tell(part_of(sha256("other"), "other", 0, 5));
  tell(part_of(sha256("xyz"), "xyz", 1, 2));
  EXPECT_TRUE(files_.empty());
  tell(part_of(sha256("xyz"), "xyz", 0, 3));
  EXPECT_EQ(files_.count(sha256("xyz")), 1U);
}

TEST_F(PhotoExchangeTest, ASilentTunerIsGivenUpAfterAMinute) {
  damaged_ = {sha256("x"), sha256("y")};
  connect();
  ASSERT_TRUE(asked());
  clock_.advance(PhotoExchange::kPatience + std::chrono::seconds(1));
  service_.tick();
  const auto next = asked();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->sha256(), bytes_of(sha256("y")));
}

TEST_F(PhotoExchangeTest, GivesPartsOfAFileThatIsReadOnce) {
  const std::string file = long_file();
  const Digest photo = sha256(file);
  files_[photo] = file;
  connect();
  std::string all;
  while (all.size() < file.size()) {
    const auto part = given(photo, all.size());
    ASSERT_TRUE(part);
    ASSERT_EQ(part->failure(), "");
    EXPECT_EQ(part->total(), file.size());
    all += part->bytes();
  }
  EXPECT_EQ(all, file);
  EXPECT_EQ(reads_, 1);
  EXPECT_NE(given(photo, file.size())->failure(), "");
  EXPECT_EQ(given(sha256("no"), 0)->failure(), "there is no such photo");
}

}  // namespace
}  // namespace ndtrain::ndp
