// What stores say of uploads and may not: refused with a reason, acknowledged, and nobody else
// waits for it.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tests/sim/forwarding_fs.h"
#include "tests/tuner/service_fixture.h"
#include "tuner/service/digest_set_file.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Digest stated_photo(int i) { return sha256("photo " + std::to_string(i)); }

wire::Upload statement(uint64_t sequence, int i) {
  wire::Upload u;
  u.set_sequence(sequence);
  u.set_digest(bytes_of(stated_photo(i)));
  u.set_path("uploads/" + std::to_string(i));
  u.set_time(1000);
  return u;
}
wire::Upload stated_truth(uint64_t sequence, int i, const std::string& name = "rose") {
  wire::Upload u = statement(sequence, i);
  u.set_truth(name);
  return u;
}
wire::Upload removed(uint64_t sequence, int i) {
  wire::Upload u = statement(sequence, i);
  u.set_removed(true);
  return u;
}
wire::Upload labelled(uint64_t sequence, int i, const std::string& name, float score) {
  wire::Upload u = statement(sequence, i);
  u.set_version(1);
  u.add_top()->set_name(name);
  u.mutable_top(0)->set_score(score);
  return u;
}

// A disk that does not give what stores hold.
class HoldersAway final : public sim::ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    if (away && mode == Mode::kRead && path.find("holders/") != std::string::npos) {
      return Status(Code::kIo, path + ": Input/output error");
    }
    return ForwardingFs::open(path, mode);
  }
  bool away = true;
};

struct StatementKeeper final : UploadSink {
  Status keep(const StorePlace& place, std::span<const wire::Upload> lines,
              const std::map<uint64_t, PublishedModel>&) override {
    const std::string& store = place.store;
    if (broken.contains(store)) return {Code::kIo, "that cannot be kept"};
    for (const wire::Upload& u : lines) {
      kept.push_back(store + std::to_string(u.sequence()));
      at[*digest_of(u.digest())].insert(store);
    }
    return {};
  }
  Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) override {
    std::vector<std::set<std::string>> stores;
    for (const Digest& d : photos) stores.push_back(at[d]);
    return stores;
  }
  Status forget(const std::vector<Digest>& photos) override {
    forgotten.insert(forgotten.end(), photos.begin(), photos.end());
    return {};
  }
  Status remove_task(const std::string&) override { return {}; }
  Status put_in_trash(const std::vector<Digest>&) override { return {}; }
  Status restore_from_trash(const std::vector<Digest>&) override { return {}; }
  std::set<std::string> broken;  // whose lines the database does not take
  std::map<Digest, std::set<std::string>> at;
  std::vector<std::string> kept;
  std::vector<Digest> forgotten;
};

class StoreStatements : public testing::ServiceTest {
 protected:
  void greet(LinkId link, const std::string& store) {
    heard_by_->handle({link, LinkOpened{"10.0.0.7:4711", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    heard_by_->handle({link, hello});
    links_.sent.clear();
  }
  void say(LinkId link, const std::vector<std::string>& lines) {
    wire::FromStore m;
    std::string all;
    for (const std::string& l : lines) {
      m.mutable_uploads()->add_lines(l);
      all += l;
    }
    m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
    m.set_term(again_.term);
    heard_by_->handle({link, std::move(m)});
    lanes_.run();
  }
  void say(LinkId link, const std::vector<wire::Upload>& lines) {
    std::vector<std::string> bytes;
    for (const wire::Upload& u : lines) bytes.push_back(u.SerializeAsString());
    say(link, bytes);
  }
  // The last acknowledgement on a link since the last time; none: sequence 0.
  wire::UploadsKept kept(LinkId link) {
    wire::UploadsKept last;
    for (const auto& [to, m] : std::exchange(links_.sent, {})) {
      if (to == link && m.has_uploads_kept()) last = m.uploads_kept();
    }
    return last;
  }
  std::vector<nlohmann::json> audit() {
    std::vector<nlohmann::json> lines;
    for (const std::string& l : audit_.last(100).or_throw())
      lines.push_back(nlohmann::json::parse(l));
    return lines;
  }
  void wait(double seconds) {
    clock_.advance(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds)));
    tuner_.tick();
    lanes_.run();
  }

  StatementKeeper keeper_;
  AuditLog audit_{fs_, clock_, "state"};
  TunerIdentity again_ = state_.next_term(1).or_throw();
  TunerService tuner_{
      {fs_, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_, &audit_}, again_};
  TunerService* heard_by_ = &tuner_;
};

TEST_F(StoreStatements, EachBadLineIsRefusedWithItsReasonAndAcknowledgedAndTheOthersAreKept) {
  struct Case {
    std::string line, why;
  };
  const std::string megabyte(1 << 20, 'x');
  wire::Upload far = statement(9, 3), nowhere = statement(9, 3), up = statement(9, 3),
               deep = statement(9, 3), early = statement(9, 3), nobody = statement(9, 3);
  far.set_time(int64_t{1} << 62);
  early.set_time(-1);
  nowhere.clear_path();
  up.set_path("../../etc/passwd");
  deep.set_path(megabyte);
  nobody.set_digest("short");
  const std::vector<Case> bad = {
      {labelled(9, 3, "rose", std::nanf("")).SerializeAsString(), "TopClass.score is nan"},
      {labelled(9, 3, "rose", HUGE_VALF).SerializeAsString(), "TopClass.score is inf"},
      {labelled(9, 3, "", .5F).SerializeAsString(), "TopClass.name has 0 bytes"},
      {labelled(9, 3, megabyte, .5F).SerializeAsString(), "TopClass.name has 1048576 bytes"},
      {stated_truth(9, 3, "a\nb").SerializeAsString(), "Upload.truth is 'a\\nb'"},
      {stated_truth(9, 3, megabyte).SerializeAsString(), "Upload.truth has 1048576 bytes"},
      {stated_truth(9, 3, "\xff").SerializeAsString(), "Upload.truth is '\\xff'"},
      {far.SerializeAsString(), "Upload.time is 4611686018427387904"},
      {early.SerializeAsString(), "Upload.time is -1"},
      {nowhere.SerializeAsString(), "where the photo is"},
      {up.SerializeAsString(), "Upload.path is '../../etc/passwd'"},
      {deep.SerializeAsString(), "Upload.path has 1048576 bytes"},
      {nobody.SerializeAsString(), "Upload.digest has 5 bytes"},
      {"\x01garbage", "no line of a log"},
  };
  greet(1, "evil");
  for (const auto& [bytes, why] : bad) {
    keeper_.kept.clear();
    say(1, {statement(8, 2).SerializeAsString(), bytes, statement(10, 4).SerializeAsString()});
    EXPECT_THAT(keeper_.kept, ElementsAre("evil8", "evil10")) << why;
    const wire::UploadsKept ack = kept(1);
    EXPECT_EQ(ack.sequence(), 10U) << why;
    ASSERT_EQ(ack.refused_size(), 1) << why;
    EXPECT_EQ(ack.refused(0).sequence(), 9U) << why;
    EXPECT_THAT(ack.refused(0).reason(), HasSubstr(why));
    say(1, {bytes});
    EXPECT_GE(kept(1).sequence(), 1U) << "alone: " << why;
  }
}

// Whether a file of the directory has this in it.
bool is_in(Fs& fs, const std::string& directory, const std::string& text) {
  return std::ranges::any_of(fs.list(directory).or_throw(), [&](const std::string& name) {
    const std::string path = join(directory, name);
    return fs.info(path).or_throw().is_directory
               ? is_in(fs, path, text)
               : fs.read(path).or_throw().find(text) != std::string::npos;
  });
}

TEST_F(StoreStatements, ABadLineDoesNotComeBackWithTheNextTuner) {
  greet(1, "evil");
  const std::vector<wire::Upload> lines = {statement(1, 1), labelled(2, 2, "poison", std::nanf("")),
                                           statement(3, 3)};
  say(1, lines);
  EXPECT_EQ(kept(1).sequence(), 3U);
  EXPECT_TRUE(is_in(fs_, "state", "incarnation") || is_in(fs_, "state", "term"));
  EXPECT_FALSE(is_in(fs_, "state", "poison"));

  again_ = state_.next_term(1).or_throw();
  TunerService next(
      {fs_, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_, &audit_}, again_);
  heard_by_ = &next;
  greet(1, "evil");
  greet(2, "b");
  keeper_.kept.clear();
  say(1, {statement(4, 4)});  // from where it is acknowledged on
  EXPECT_THAT(kept(1).refused(), IsEmpty());
  EXPECT_THAT(keeper_.kept, ElementsAre("evil4"));
  say(1, lines);  // had it not heard so: refused again
  const wire::UploadsKept ack = kept(1);
  EXPECT_EQ(ack.sequence(), 3U);
  ASSERT_EQ(ack.refused_size(), 1);
  EXPECT_EQ(ack.refused(0).sequence(), 2U);
  say(2, {statement(1, 5)});
  EXPECT_EQ(kept(2).sequence(), 1U);
}

TEST_F(StoreStatements, WhileItCannotBeReadWhoHoldsAPhotoNobodyTakesItFromOthers) {
  greet(1, "a");
  greet(2, "evil");
  wait(2);  // they are known to the next Tuner, too
  DigestFilter filter;
  const std::string path = "state/holders/" + to_hex(sha256("a")) + ".set";
  fs_.make_directories("state/holders").or_throw();
  const Digest photo = stated_photo(1);
  ASSERT_TRUE(write_digest_set(fs_, path, "a", {&photo, 1}, filter).ok());
  HoldersAway disk(fs_);
  again_ = state_.next_term(1).or_throw();
  TunerService next(
      {disk, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_, &audit_},
      again_);
  heard_by_ = &next;
  greet(1, "a");
  greet(2, "evil");
  say(2, {removed(1, 1)});
  EXPECT_EQ(kept(2).sequence(), 0U) << "it waits";
  EXPECT_FALSE(next.collections_holding(photo).ok());
  disk.away = false;
  clock_.advance(std::chrono::seconds(5));
  next.tick();
  lanes_.run();
  const wire::UploadsKept ack = kept(2);
  EXPECT_EQ(ack.sequence(), 1U);
  ASSERT_EQ(ack.refused_size(), 1);
  EXPECT_THAT(ack.refused(0).reason(), HasSubstr("is held by other stores"));
  EXPECT_THAT(keeper_.forgotten, IsEmpty());
}

TEST_F(StoreStatements, AStoreWhoseLinesCannotBeKeptHoldsUpNobodyElse) {
  greet(1, "a");
  greet(2, "b");
  keeper_.broken = {"a"};
  say(1, {statement(1, 1)});
  say(2, {statement(1, 2)});
  EXPECT_EQ(kept(2).sequence(), 1U);
  say(1, {statement(2, 1)});
  say(2, {statement(2, 2), removed(3, 3)});
  EXPECT_EQ(kept(2).sequence(), 3U);
  EXPECT_THAT(keeper_.kept, ElementsAre("b1", "b2"));
  keeper_.broken.clear();
  wait(2);
  EXPECT_THAT(keeper_.kept, ElementsAre("b1", "b2", "a1", "a2"));
  EXPECT_EQ(kept(1).sequence(), 2U);
}

TEST_F(StoreStatements, AStoreMayHaveSoMuchWaitingAndNoMore) {
  constexpr size_t kMost = UploadQueues::kWaitingBytes;
  for (const int64_t more : {-1, 0, 1}) {
    UploadQueues queues;
    wire::Uploads half, rest;
    half.add_lines(std::string(kMost / 2, 'x'));
    rest.add_lines(std::string(static_cast<size_t>(static_cast<int64_t>(kMost / 2) + more), 'x'));
    EXPECT_TRUE(queues.put("a", 1, half));
    EXPECT_EQ(queues.put("a", 1, rest), more <= 0);
    EXPECT_TRUE(queues.put("b", 2, half)) << "it has a queue of its own";
  }
}

TEST_F(StoreStatements, OnlyWhatAStoreHoldsItDeletesAndOnlyOfThatItSpeaksTruth) {
  keeper_.at[stated_photo(1)] = {"b"};
  keeper_.at[stated_photo(2)] = {"a", "b"};
  greet(1, "a");
  greet(2, "b");
  say(1, {removed(1, 1), stated_truth(2, 1), removed(3, 2), stated_truth(4, 3)});
  const wire::UploadsKept ack = kept(1);
  EXPECT_EQ(ack.sequence(), 4U);
  ASSERT_EQ(ack.refused_size(), 2);
  for (const int i : {0, 1}) {
    EXPECT_EQ(ack.refused(i).sequence(), i + 1U);
    EXPECT_THAT(ack.refused(i).reason(),
                AllOf(HasSubstr(to_hex(stated_photo(1)).substr(0, 12)), HasSubstr("not by a")));
  }
  EXPECT_THAT(keeper_.kept, ElementsAre("a4"));
  EXPECT_THAT(keeper_.forgotten, ElementsAre(stated_photo(2)));
  EXPECT_EQ(tuner_.stores()[1].deletions_due, 1U) << "b hears of the one that both held";
}

TEST_F(StoreStatements, WhatInventoriesSayCountsAndIsRememberedByTheNextTuner) {
  JobFiles files(fs_, "state/jobs/9");
  files.save({.id = 9, .spec = {.model = to_hex(model_)}, .state = JobState::kDone}).or_throw();
  const auto claim = [](int i) { return PhotoClaim{.digest = stated_photo(i), .label = "cat"}; };
  const std::vector<std::vector<PhotoClaim>> photos = {{claim(1), claim(2)}, {claim(2), claim(3)}};
  files.save_manifest(Manifest(photos, {}), {"a", "b"}).or_throw();
  TunerService next(
      {fs_, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_, &audit_},
      again_ = state_.next_term(1).or_throw());
  next.handle({1, LinkOpened{"a host", ""}});
  wire::FromStore m;
  m.mutable_hello()->add_protocols(kProtocols[0]);
  m.mutable_hello()->set_store("a");
  next.handle({1, m});
  for (const int i : {1, 2, 3, 4}) {
    const std::string bytes = removed(static_cast<uint64_t>(i), i).SerializeAsString();
    m.mutable_uploads()->add_lines(bytes);
  }
  std::string all;
  for (const std::string& l : m.uploads().lines()) all += l;
  m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
  m.set_term(again_.term);
  next.handle({1, m});
  lanes_.run();
  const wire::UploadsKept ack = kept(1);
  ASSERT_EQ(ack.refused_size(), 1);
  EXPECT_EQ(ack.refused(0).sequence(), 3U);
  EXPECT_THAT(keeper_.forgotten, SizeIs(3));
}

TEST_F(StoreStatements, APhotoThatItHasJustTakenIsItsOwn) {
  keeper_.at[stated_photo(1)] = {"b"};
  greet(1, "a");
  say(1, {statement(1, 1), stated_truth(2, 1)});
  EXPECT_THAT(kept(1).refused(), IsEmpty());
  EXPECT_THAT(keeper_.kept, ElementsAre("a1", "a2"));
}

TEST_F(StoreStatements, AreInTheAuditLogBeforeTheyCountAndThoseRefusedInOneLine) {
  keeper_.at[stated_photo(1)] = keeper_.at[stated_photo(2)] = {"b"};
  greet(1, "a");
  say(1, {stated_truth(1, 5, "tulip"), removed(2, 6), removed(3, 1), removed(4, 2)});
  const std::vector<nlohmann::json> lines = audit();
  ASSERT_EQ(lines.size(), 3U);
  for (const nlohmann::json& l : lines) {
    EXPECT_EQ(l.at("who"), "store a");
    EXPECT_EQ(l.at("address"), "10.0.0.7:4711");
  }
  EXPECT_EQ(lines[0].at("request"), "PUT /photos/" + to_hex(stated_photo(5)) + "/label");
  EXPECT_EQ(lines[0].at("what"), "label");
  EXPECT_EQ(lines[0].at("asked"), nlohmann::json({{"label", "tulip"}}));
  EXPECT_EQ(lines[1].at("request"), "DELETE /photos/" + to_hex(stated_photo(6)));
  EXPECT_FALSE(lines[1].contains("failed"));
  EXPECT_EQ(lines[2].at("failed"), 403);
  EXPECT_EQ(lines[2].at("asked"), nlohmann::json({{"refused", 2}}));
  say(1, {removed(2, 6)});
  EXPECT_THAT(audit(), SizeIs(3)) << "it was deleted before";
  EXPECT_EQ(kept(1).sequence(), 2U);
  fs_.fail_call(1);
  say(1, {removed(5, 7)});
  EXPECT_EQ(kept(1).sequence(), 0U);
  EXPECT_THAT(keeper_.forgotten, ElementsAre(stated_photo(6)))
      << "without a line there is no change";
  wait(2);
  EXPECT_EQ(kept(1).sequence(), 5U);
  EXPECT_THAT(keeper_.forgotten, ElementsAre(stated_photo(6), stated_photo(7)));
  EXPECT_THAT(audit(), SizeIs(4));
}

TEST_F(StoreStatements, AreTakenAtALimitedRateAndTheRestOfTheStoreWaitsBehindThem) {
  constexpr auto kBurst = static_cast<uint64_t>(UploadQueues::kStatements);
  greet(1, "a");
  greet(2, "b");
  std::vector<wire::Upload> many;
  for (uint64_t s = 1; s <= kBurst + 10; ++s) many.push_back(stated_truth(s, static_cast<int>(s)));
  many.push_back(statement(kBurst + 11, 1));
  say(1, many);
  EXPECT_EQ(kept(1).sequence(), kBurst);
  say(2, {stated_truth(1, 1)});
  EXPECT_EQ(kept(2).sequence(), 1U) << "it has a rate of its own";
  wait(1);
  EXPECT_EQ(kept(1).sequence(), kBurst + 5);
  EXPECT_LE(tuner_.next() - clock_.monotonic(), std::chrono::seconds(1)) << "it looks again soon";
  wait(1);
  wait(1);
  EXPECT_EQ(kept(1).sequence(), kBurst + 11);
}

TEST_F(StoreStatements, DeletionsThatTheTunerItselfAskedForCostNothingOfTheRate) {
  greet(1, "a");
  std::vector<Digest> gone;
  std::vector<wire::Upload> echo;
  for (int i = 0; i < 3000; ++i) {
    gone.push_back(stated_photo(i));
    echo.push_back(removed(static_cast<uint64_t>(i) + 1, i));
  }
  (void)tuner_.delete_photos(gone);
  lanes_.run();
  say(1, echo);
  EXPECT_EQ(kept(1).sequence(), 3000U);
  EXPECT_THAT(audit(), IsEmpty());
}

TEST_F(StoreStatements, WhatNoPeerMaySendEndsTheSessionAndNamesTheField) {
  ::testing::internal::CaptureStderr();
  tuner_.handle({1, LinkOpened{"10.0.0.7:4711", ""}});
  wire::FromStore hello;
  hello.mutable_hello()->add_protocols(kProtocols[0]);
  hello.mutable_hello()->set_store("evil");
  hello.mutable_hello()->set_version("1\x1b[2J");
  tuner_.handle({1, hello});
  greet(2, "evil");
  wire::FromStore m;
  m.set_term(again_.term);
  m.mutable_inventory()->add_names("a\nb");
  tuner_.handle({2, m});
  EXPECT_EQ(links_.sent.back().second.refusal().reason(), wire::Refusal::BAD_MESSAGE);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("who dials from 10.0.0.7:4711 is refused: Hello.version is '1\\x1b"));
  EXPECT_THAT(log, HasSubstr("store evil at 10.0.0.7:4711 is refused: Inventory.names is 'a\\nb'"));
  greet(3, "evil");
  wire::FromStore bye;
  bye.set_term(again_.term);
  bye.mutable_leaving()->set_reason("x\nerror: y");
  ::testing::internal::CaptureStderr();
  tuner_.handle({3, bye});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("x\\nerror: y"));
}

}  // namespace
}  // namespace ndtrain::tuner
