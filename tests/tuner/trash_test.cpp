// Photos in the trash of the Tuner: who hears of it, what it hides, and how they leave it.
#include <gmock/gmock.h>

#include <functional>

#include "framework/testing/fsync_throws.h"
#include "ndp/wire/digests.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHour = 3600;

Digest in_trash(int i) { return sha256("in the trash " + std::to_string(i)); }

// A label database that only knows what is hidden.
struct Hidden final : UploadSink {
  Status keep(const StorePlace&, std::span<const wire::Upload>,
              const std::map<uint64_t, PublishedModel>&) override {
    return {};
  }
  Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) override {
    return std::vector<std::set<std::string>>(photos.size());
  }
  Status forget(const std::vector<Digest>& photos) override {
    if (broken) return {Code::kIo, "the database is away"};
    for (const Digest& photo : photos) hidden.erase(photo);
    forgotten.insert(photos.begin(), photos.end());
    return {};
  }
  Status remove_task(const std::string&) override { return {}; }
  Status put_in_trash(const std::vector<Digest>& photos) override {
    if (broken) return {Code::kIo, "the database is away"};
    hidden.insert(photos.begin(), photos.end());
    return {};
  }
  Status restore_from_trash(const std::vector<Digest>& photos) override {
    if (broken) return {Code::kIo, "the database is away"};
    for (const Digest& photo : photos) hidden.erase(photo);
    return {};
  }
  bool broken = false;
  std::set<Digest> hidden, forgotten;
};

class Trash : public testing::ServiceTest {
 protected:
  std::vector<std::string> audited() const { return audit_.last(100).or_throw(); }
  void SetUp() override { start(); }
  void start() {
    tuner_.reset();
    lanes_.tasks.clear();
    again_ = state_.next_term(++starts_).or_throw();
    tuner_ = std::make_unique<TunerService>(
        TunerService::Setting{fs_, clock_, state_, links_, lanes_, works_, models_, versions_,
                              &labels_, &audit_},
        again_);
  }
  void greet(LinkId link, const std::string& store, uint64_t knows = 0,
             const std::vector<uint32_t>& protocols = {4, 3, 2, 1}) {
    tuner_->handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    for (const uint32_t p : protocols) hello.mutable_hello()->add_protocols(p);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_trash(knows);
    tuner_->handle({link, hello});
  }
  void put(const std::vector<int>& photos, int64_t keep = kHour) {
    std::vector<TrashedPhoto> all;
    for (const int i : photos) {
      const int64_t now = clock_.unix_seconds();
      all.push_back({.photo = in_trash(i), .who = "ann", .since = now, .until = now + keep});
    }
    (void)tuner_->trash_photos(all);
  }
  void restore(int i) {
    const Digest photo = in_trash(i);
    tuner_->restore_photos({&photo, 1});
  }
  void work() {
    for (int i = 0; i < 3; ++i) {
      tuner_->tick();
      lanes_.run();
    }
  }
  // What a store that follows knows after all that was sent on the link.
  std::set<Digest> known(LinkId link) {
    std::set<Digest>& now = known_[link];
    std::set<Digest> in, out;
    for (const auto& [to, m] : links_.sent) {
      if (to != link || !m.has_trash()) continue;
      const auto add = [](const std::string& bytes, std::set<Digest>& set) {
        for (size_t at = 0; at < bytes.size(); at += 32)
          set.insert(*digest_of(bytes.substr(at, 32)));
      };
      add(m.trash().photos(), in);
      add(m.trash().restored(), out);
      revision_ = m.trash().revision();
      if (!m.trash().last()) continue;
      if (m.trash().whole()) now.clear();
      now.insert(in.begin(), in.end());
      for (const Digest& photo : out) now.erase(photo);
      in.clear();
      out.clear();
    }
    links_.sent.clear();
    return now;
  }
  void uploaded_again(LinkId link, int i, uint64_t restores) {
    wire::Upload line;
    line.set_digest(bytes_of(in_trash(i)));
    line.set_path("uploads/x.jpg");
    line.set_sequence(1);
    line.set_restores(restores);
    wire::FromStore m;
    *m.mutable_uploads()->add_lines() = line.SerializeAsString();
    const std::string all = m.uploads().lines(0);
    m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
    m.set_term(again_.term);
    tuner_->handle({link, std::move(m)});
    lanes_.run();
  }

  Hidden labels_;
  AuditLog audit_{fs_, clock_, "state"};
  uint64_t starts_ = 0, revision_ = 0;
  std::map<LinkId, std::set<Digest>> known_;
  TunerIdentity again_;
  std::unique_ptr<TunerService> tuner_;
};

TEST_F(Trash, StoresThatAreHereHearOfItAtOnceAndOthersWhenTheyAreBack) {
  greet(1, "a");
  put({1, 2});
  EXPECT_THAT(known(1), UnorderedElementsAre(in_trash(1), in_trash(2)));
  restore(1);
  EXPECT_THAT(known(1), ElementsAre(in_trash(2)));
  greet(2, "b");
  EXPECT_THAT(known(2), ElementsAre(in_trash(2)));
  tuner_->handle({1, LinkClosed{"gone"}});
  const uint64_t heard = revision_;
  restore(2);
  greet(3, "a", heard);
  known_[3] = {in_trash(2)};
  EXPECT_THAT(known(3), IsEmpty()) << "what was restored while it was away";
}

TEST_F(Trash, AStoreThatDoesNotKnowTheMessageIsNotTold) {
  greet(1, "a", 0, {3, 2, 1});
  put({1});
  EXPECT_THAT(known(1), IsEmpty());
  EXPECT_TRUE(tuner_->trash().hides(in_trash(1))) << "jobs are without it all the same";
}

TEST_F(Trash, TravelsInMessagesThatAreNotTooLong) {
  std::vector<int> many;
  for (int i = 0; i < 10'000; ++i) many.push_back(i);
  put(many);
  greet(1, "a");
  EXPECT_EQ(std::ranges::count_if(links_.sent, [](auto& m) { return m.second.has_trash(); }), 3);
  EXPECT_EQ(known(1).size(), 10'000U);
}

TEST_F(Trash, TheLabelDatabaseHearsOfItThoughItIsAwayAtFirstAndAfterARestart) {
  labels_.broken = true;
  put({1, 2});
  work();
  labels_.broken = false;
  clock_.advance(std::chrono::seconds(3));
  work();
  EXPECT_THAT(labels_.hidden, UnorderedElementsAre(in_trash(1), in_trash(2)));
  labels_.broken = true;
  restore(1);
  work();
  start();  // the process dies before the database has heard of it
  labels_.broken = false;
  work();
  EXPECT_THAT(labels_.hidden, ElementsAre(in_trash(2)));
  EXPECT_TRUE(tuner_->trash().has(in_trash(2)));
  EXPECT_FALSE(tuner_->trash().has(in_trash(1)));
  work();
  EXPECT_TRUE(lanes_.tasks.empty()) << "it is told once";
}

TEST_F(Trash, WhenTheirTimeIsOverPhotosAreDeletedThoughTheTunerWasNotRunning) {
  greet(1, "a");
  put({1}, kHour);
  put({2}, 2 * kHour);
  work();
  EXPECT_LE(tuner_->next(), clock_.monotonic() + std::chrono::hours(1));
  (void)known(1);
  clock_.advance(std::chrono::minutes(59));
  work();
  EXPECT_TRUE(tuner_->trash().has(in_trash(1)));
  clock_.advance(std::chrono::minutes(2));
  start();
  work();
  EXPECT_FALSE(tuner_->trash().has(in_trash(1)));
  EXPECT_TRUE(tuner_->is_deleted(in_trash(1)));
  EXPECT_TRUE(tuner_->trash().has(in_trash(2)));
  EXPECT_THAT(labels_.forgotten, ElementsAre(in_trash(1)));
  greet(2, "a");
  size_t deletions = 0, trash = 0;  // first it is deleted, so that no store shows it in between
  for (size_t i = 0; i < links_.sent.size(); ++i) {
    if (links_.sent[i].second.has_deletions()) deletions = i;
    if (links_.sent[i].second.has_trash()) trash = i;
  }
  EXPECT_LT(deletions, trash);
  EXPECT_THAT(known(2), ElementsAre(in_trash(2)));
  clock_.advance(std::chrono::hours(1));
  work();
  EXPECT_TRUE(tuner_->is_deleted(in_trash(2))) << "while it runs, too";
  EXPECT_TRUE(tuner_->trash().photos().empty());
  ASSERT_EQ(audited().size(), 2U);
  for (const int i : {1, 2}) {
    EXPECT_THAT(audited()[static_cast<size_t>(i - 1)],
                AllOf(HasSubstr("\"who\":\"trash\""), HasSubstr("\"what\":\"deletion\""),
                      HasSubstr("DELETE /photos/" + to_hex(in_trash(i)))));
  }
}

// Its line in the audit log comes before it goes, and once in each life of the process.
TEST_F(Trash, APhotoWhoseEndCannotBeKeptStaysAndIsRecordedOnce) {
  const FsyncThrows throws;
  put({1});
  work();
  clock_.advance(std::chrono::hours(2));
  size_t lives = 1;
  for (int64_t call = 1; call < 40 && !tuner_->is_deleted(in_trash(1)); ++call) {
    fs_.fail_call(call);
    try {
      tuner_->tick();
    } catch (const FsyncFailed&) {
      start();
      ++lives;
    }
    fs_.fail_call(0);
    EXPECT_TRUE(!tuner_->is_deleted(in_trash(1)) || !audited().empty());
    clock_.advance(std::chrono::seconds(3));
  }
  EXPECT_TRUE(tuner_->is_deleted(in_trash(1)));
  EXPECT_GE(audited().size(), 1U);
  EXPECT_LE(audited().size(), lives);
}

TEST_F(Trash, APhotoThatIsDeletedLeavesItAndIsNotPutThereAgain) {
  put({1, 2});
  const Digest photo = in_trash(1);
  (void)tuner_->delete_photos({&photo, 1});
  EXPECT_FALSE(tuner_->trash().has(photo));
  put({1});
  EXPECT_FALSE(tuner_->trash().has(photo));
  work();
  EXPECT_THAT(labels_.hidden, ElementsAre(in_trash(2)));
  start();
  EXPECT_FALSE(tuner_->trash().has(photo));
}

TEST_F(Trash, APhotoThatIsUploadedAgainIsRestoredButNotByALineOfBefore) {
  greet(1, "a");
  put({1});
  EXPECT_THAT(known(1), ElementsAre(in_trash(1)));
  const uint64_t knows = revision_;
  uploaded_again(1, 1, knows);
  EXPECT_FALSE(tuner_->trash().has(in_trash(1)));
  EXPECT_THAT(known(1), IsEmpty());
  put({1});
  uploaded_again(1, 1, knows);  // the same line comes twice
  EXPECT_TRUE(tuner_->trash().has(in_trash(1)));
  uploaded_again(1, 1, 0);  // said by a store that did not know
  EXPECT_TRUE(tuner_->trash().has(in_trash(1)));
}

// Every call to the disk fails once, which may end the process: what was answered holds, labels and
// trash agree, and no photo is deleted before its time.
TEST_F(Trash, OutlivesAFailureInEachCall) {
  const FsyncThrows throws;
  const auto answered = [this](int64_t n, const std::function<void()>& what) {
    bool done = false;
    fs_.fail_call(n);
    try {
      what();
      done = true;
    } catch (const FsyncFailed&) {
    } catch (const Error&) {
    }
    fs_.fail_call(0);
    start();
    work();
    return done;
  };
  int unanswered = 0;
  for (int64_t n = 1; n < 12; ++n) {
    SCOPED_TRACE(n);
    const int photo = static_cast<int>(n);
    const auto there = [&] { return tuner_->trash().has(in_trash(photo)); };
    const bool put_there = answered(n, [&] { put({photo}); });
    EXPECT_TRUE(there() || !put_there);
    EXPECT_EQ(labels_.hidden.contains(in_trash(photo)), there());
    put({photo});
    const bool back = answered(n, [&] { restore(photo); });
    EXPECT_FALSE(there() && back);
    EXPECT_EQ(labels_.hidden.contains(in_trash(photo)), there());
    EXPECT_FALSE(tuner_->is_deleted(in_trash(photo)));
    unanswered += !put_there + !back;
  }
  EXPECT_GE(unanswered, 4);
}

}  // namespace
}  // namespace ndtrain::tuner
