// What stores say of uploads: kept in order, acknowledged when it is durable; and where people are
// sent to upload.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "tests/support/waiting_lanes.h"
#include "tests/tuner/upload_lines.h"
#include "tuner/service/service.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::WaitingLanes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using upload_lines::labelled;
using upload_lines::line;
using upload_lines::model_of;
using upload_lines::truth;

struct UploadLinks final : LinkServer {
  std::string address() const override { return "here"; }
  void send(LinkId link, wire::ToStore m) override { sent.emplace_back(link, std::move(m)); }
  void close(LinkId link) override { closed.push_back(link); }
  std::vector<std::pair<LinkId, wire::ToStore>> sent;
  std::vector<LinkId> closed;
};

struct NoWorks final : JobFactory {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    throw Error("no jobs here");
  }
};

struct UploadKeeper final : UploadSink {
  Status keep(const StorePlace& place, std::span<const wire::Upload> lines,
              const std::map<uint64_t, PublishedModel>&) override {
    if (broken) return {Code::kIo, "the database is away"};
    for (const wire::Upload& u : lines) {
      kept.push_back(place.store + std::to_string(u.sequence()));
      if (!u.task().empty()) kept.back() += " of " + u.task();
    }
    return {};
  }
  Result<std::vector<std::set<std::string>>> holders(std::span<const Digest> photos) override {
    if (broken) return Status(Code::kIo, "the database is away");
    std::vector<std::set<std::string>> stores;
    for (const Digest& photo : photos) stores.push_back(at[photo]);
    return stores;
  }
  Status forget(const std::vector<Digest>& photos) override {
    if (broken) return {Code::kIo, "the database is away"};
    forgotten.insert(forgotten.end(), photos.begin(), photos.end());
    return {};
  }
  Status remove_task(const std::string& task) override {
    if (broken) return {Code::kIo, "the database is away"};
    removed_tasks.push_back(task);
    return {};
  }
  Status put_in_trash(const std::vector<Digest>&) override { return {}; }
  Status restore_from_trash(const std::vector<Digest>&) override { return {}; }
  std::vector<Digest> forgotten;
  std::vector<std::string> removed_tasks;
  bool broken = false;
  std::map<Digest, std::set<std::string>> at;
  std::vector<std::string> kept;
};

class TunerUploads : public ::testing::Test {
 protected:
  void greet(LinkId link, const std::string& store, const std::vector<std::string>& hosts = {}) {
    service_.handle({link, LinkOpened{"10.0.0." + std::to_string(link) + ":4711", "", hosts}});
    wire::FromStore hello;
    hello.mutable_hello()->set_takes_tickets(store != "old");
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    service_.handle({link, hello});
    links_.sent.clear();
  }
  void say(LinkId link, wire::FromStore m) {
    m.set_term(me_.term);
    service_.handle({link, std::move(m)});
  }
  void uploads(LinkId link, uint64_t first, uint64_t last) {
    std::vector<wire::Upload> lines;
    for (uint64_t s = first; s <= last; ++s) lines.push_back(line(s, 1));
    upload(link, lines);
  }
  void upload(LinkId link, const std::vector<wire::Upload>& lines) {
    wire::FromStore m;
    std::string all;
    for (const wire::Upload& u : lines) *m.mutable_uploads()->add_lines() = u.SerializeAsString();
    for (const std::string& l : m.uploads().lines()) all += l;
    m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
    say(link, m);
  }
  void space(LinkId link, const std::string& http, uint64_t free) {
    wire::FromStore m;
    m.mutable_space()->set_http(http);
    m.mutable_space()->set_free(free);
    say(link, m);
  }
  // Where the next upload goes.
  std::optional<std::string> place() {
    const StoreRecord* const store = service_.place_upload("default");
    return store ? std::optional(store->http) : std::nullopt;
  }
  std::string http_of(const std::string& name) const {
    for (const StoreRecord& s : service_.stores()) {
      if (s.name == name) return s.http;
    }
    return "no such store";
  }
  // What was acknowledged since the last time.
  std::vector<std::pair<LinkId, uint64_t>> acks() {
    std::vector<std::pair<LinkId, uint64_t>> all;
    for (const auto& [link, m] : std::exchange(links_.sent, {})) {
      if (m.has_uploads_kept()) all.emplace_back(link, m.uploads_kept().sequence());
    }
    return all;
  }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  UploadLinks links_;
  WaitingLanes lanes_;
  NoWorks works_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  UploadKeeper keeper_;
  TunerIdentity me_ = state_.next_term(1).or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_},
                        me_};
};

TEST_F(TunerUploads, AreAcknowledgedWhenTheyAreDurable) {
  greet(1, "a");
  uploads(1, 1, 3);
  EXPECT_THAT(acks(), IsEmpty());
  lanes_.run();
  EXPECT_THAT(keeper_.kept, ElementsAre("a1", "a2", "a3"));
  EXPECT_THAT(acks(), ElementsAre(std::pair(1U, 3U)));
}

TEST_F(TunerUploads, ThatComeFastGoInTogetherAndStoresTakeTurns) {
  greet(1, "a");
  greet(2, "b");
  for (uint64_t s = 1; s <= 5; ++s) uploads(1, s, s);
  uploads(2, 1, 1);
  EXPECT_EQ(lanes_.tasks.size(), 1U);
  lanes_.run();
  EXPECT_THAT(keeper_.kept, ElementsAre("a1", "b1", "a2", "a3", "a4", "a5"));
  EXPECT_THAT(acks(), ElementsAre(std::pair(1U, 1U), std::pair(2U, 1U), std::pair(1U, 5U)));
}

// Of a task in which there was a version 1.
class UploadsOfRemovedTasks : public TunerUploads {
 protected:
  static wire::Upload in_mood(wire::Upload u) {
    u.set_task("mood");
    return u;
  }
  // What a store says that has not heard of it.
  static std::vector<wire::Upload> words() {
    std::vector<wire::Upload> lines = {in_mood(labelled(1, 1, 1, "rose")),
                                       in_mood(truth(2, 2, "tulip")), truth(3, 3, "tulip")};
    lines[1].set_time(kRemoved);
    return lines;
  }
  void begin() {
    PublishedModel m = model_of(1);
    m.task = "mood";
    versions_.add(m, true).or_throw();
  }
  void remove() {
    clock_.advance(std::chrono::seconds(kRemoved - clock_.unix_seconds()));
    service_.remove_task("mood");
  }
  static constexpr int64_t kRemoved = 2'000'000'000;
};

TEST_F(UploadsOfRemovedTasks, AreOfNoneAnyMoreAndThePhotosStay) {
  begin();
  greet(1, "a");
  upload(1, words());
  lanes_.run();
  EXPECT_THAT(keeper_.kept, ElementsAre("a1 of mood", "a2 of mood", "a3"));
  remove();
  lanes_.run();
  EXPECT_THAT(keeper_.removed_tasks, ElementsAre("mood"));
  greet(2, "b");
  upload(2, words());
  lanes_.run();
  EXPECT_THAT(keeper_.kept, ElementsAre("a1 of mood", "a2 of mood", "a3", "b1", "b2", "b3"));
  EXPECT_THAT(acks(), ElementsAre(std::pair(2U, 3U)));
}

TEST_F(UploadsOfRemovedTasks, OfItsFormerLifeAreNotOfOneThatIsBegunAnew) {
  begin();
  remove();
  begin();
  greet(1, "a");
  std::vector<wire::Upload> lines = words();
  lines.push_back(in_mood(truth(4, 4, "tulip")));
  lines.back().set_time(kRemoved + 1);
  lines.push_back(in_mood(labelled(5, 5, 2, "rose")));
  lines.back().set_time(kRemoved + 1);
  upload(1, lines);
  lanes_.run();
  EXPECT_THAT(keeper_.kept, ElementsAre("a1", "a2", "a3", "a4 of mood", "a5 of mood"));
}

TEST_F(UploadsOfRemovedTasks, LabelsGoWhenTheDatabaseIsThereAlsoAfterARestart) {
  begin();
  keeper_.broken = true;
  remove();
  lanes_.run();
  EXPECT_THAT(keeper_.removed_tasks, IsEmpty());
  EXPECT_LE(service_.next() - clock_.monotonic(), TaskRemoval::kRetry);
  keeper_.broken = false;
  TunerService again{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_},
                     me_};
  lanes_.run();
  EXPECT_THAT(keeper_.removed_tasks, ElementsAre("mood"));
  clock_.advance(TaskRemoval::kRetry);
  again.tick();
  lanes_.run();
  EXPECT_EQ(keeper_.removed_tasks.size(), 1U) << "once they are gone, nobody removes them again";
  const Versions kept(fs_, "state/versions.json");
  EXPECT_FALSE(kept.removed("mood")->labels);
}

TEST_F(TunerUploads, WaitForADatabaseThatIsAway) {
  greet(1, "a");
  keeper_.broken = true;
  uploads(1, 1, 2);
  lanes_.run();
  service_.tick();
  EXPECT_TRUE(lanes_.tasks.empty());
  EXPECT_THAT(acks(), IsEmpty());
  keeper_.broken = false;
  clock_.advance(service_.next() - clock_.monotonic());
  service_.tick();
  lanes_.run();
  EXPECT_THAT(acks(), ElementsAre(std::pair(1U, 2U)));
}

TEST_F(TunerUploads, OfASessionThatIsOverAreNotAcknowledgedToTheNext) {
  greet(1, "a");
  uploads(1, 1, 2);
  service_.handle({1, LinkClosed{"gone"}});
  greet(2, "a");
  lanes_.run();
  EXPECT_THAT(acks(), IsEmpty());
  uploads(2, 1, 2);
  lanes_.run();
  EXPECT_THAT(acks(), ElementsAre(std::pair(2U, 2U)));
}

TEST_F(TunerUploads, ThatWereDamagedOnTheWayEndTheSession) {
  greet(1, "a");
  wire::FromStore m;
  m.mutable_uploads()->add_lines("nonsense");
  say(1, m);
  EXPECT_THAT(links_.closed, ElementsAre(1U));
  lanes_.run();
  EXPECT_THAT(keeper_.kept, IsEmpty());
}

TEST_F(TunerUploads, GoToTheStoreWithTheMostRoom) {
  EXPECT_EQ(place(), std::nullopt);
  greet(1, "a");
  greet(2, "b", {"store-b"});
  EXPECT_EQ(place(), std::nullopt);
  space(1, "127.0.0.1:8421", 10 << 20);
  EXPECT_EQ(place(), std::nullopt);  // nobody there reaches it
  space(1, ":8421", 10 << 20);
  space(2, "store-b:8421", 13 << 20);
  std::map<std::string, int> placed;
  for (int i = 0; i < 23; ++i) ++placed[place().value_or("nowhere")];
  EXPECT_EQ(placed["10.0.0.1:8421"], 10);
  EXPECT_EQ(placed["store-b:8421"], 13);
  EXPECT_EQ(place(), std::nullopt);
  space(1, ":8421", 100 << 20);
  space(2, "store-b:8421", 10 << 20);
  service_.drain("a", true);
  EXPECT_EQ(place(), "store-b:8421");
  service_.handle({2, LinkClosed{"gone"}});
  EXPECT_EQ(place(), std::nullopt);
}

TEST_F(TunerUploads, AStoreIsBelievedOfItsOwnAddressAndOfItsCertificatesOnly) {
  greet(1, "a", {"attic.example", "10.9.9.9", "2001:db8::7"});
  for (const std::string http :
       {"10.0.0.1:8421", "https://10.0.0.1:8421", ":8421", "https://:8421", "attic.example:1",
        "https://attic.example:8421", "10.9.9.9:80", "https://[2001:db8::7]:443"}) {
    space(1, http, 1 << 20);
    EXPECT_THAT(http_of("a"), ::testing::HasSubstr(http.substr(http.rfind(':')))) << http;
  }
  for (const std::string http :
       {"10.0.0.2:8421", "https://10.0.0.2:8421", "10.0.0.1.evil.example:80", "evil.example:80",
        "https://evil.example:443", "10.0.0.1@evil.example:80", "10.0.0.1/x@evil.example:80",
        "attic.example.evil.example:80", "169.254.169.254:80", "localhost:8421", "127.0.0.1:8421",
        "[::1]:8421", "localhost.evil.example:80", "unix:/run/docker.sock", "[2001:db8::8]:443"}) {
    space(1, http, 1 << 20);
    EXPECT_EQ(http_of("a"), "") << http;
    EXPECT_EQ(place(), std::nullopt) << http;
  }
  service_.handle({2, LinkOpened{"127.0.0.1:4711", ""}});
  space(1, ":8421", 1 << 20);
  EXPECT_EQ(http_of("a"), "10.0.0.1:8421") << "once it says what is so";
}

TEST_F(TunerUploads, GoToNoStoreThatWouldNeedSomebodysOwnToken) {
  greet(1, "old");
  greet(2, "b");
  space(1, ":8421", 100 << 20);
  space(2, ":8421", 10 << 20);
  EXPECT_EQ(place(), "10.0.0.1:8421");
  service_.set_tokens("a list");
  EXPECT_EQ(place(), "10.0.0.2:8421");
}

}  // namespace
}  // namespace ndtrain::tuner
