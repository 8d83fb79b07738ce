// Photos are deleted at the Tuner: the stores hear of each, and the Tuner lets go of what it has.
#include <gmock/gmock.h>

#include "framework/core/publish.h"
#include "framework/testing/fsync_throws.h"
#include "ndp/wire/digests.h"
#include "tests/sim/forwarding_fs.h"
#include "tests/support/files.h"
#include "tests/tuner/service_fixture.h"
#include "tuner/http/http_deletions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Digest photo_numbered(int i) { return sha256("photo " + std::to_string(i)); }

struct Keeper final : UploadSink {
  Status keep(const StorePlace&, std::span<const wire::Upload> lines,
              const std::map<uint64_t, PublishedModel>&) override {
    for (const wire::Upload& u : lines) kept.push_back(*digest_of(u.digest()));
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
  std::set<Digest> hidden;
  std::map<Digest, std::set<std::string>> at;
  std::vector<Digest> kept, forgotten;
};

class Deletions : public testing::ServiceTest {
 protected:
  void greet(LinkId link, const std::string& store, uint64_t count = 0, uint64_t mark = 0) {
    tuner_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    for (const uint32_t p : speaks_) hello.mutable_hello()->add_protocols(p);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_deletions(count);
    hello.mutable_hello()->set_deletions_mark(mark);
    tuner_.handle({link, hello});
  }
  void say(LinkId link, wire::FromStore m) {
    m.set_term(again_.term);
    tuner_.handle({link, std::move(m)});
  }
  void remove(int i) {
    const Digest id = photo_numbered(i);
    (void)tuner_.delete_photos({&id, 1});
  }
  // What was told on a link since the last time.
  std::vector<Digest> told(LinkId link) {
    std::vector<Digest> all;
    for (const auto& [to, m] : links_.sent) {
      if (to != link || !m.has_deletions()) continue;
      last_ = m.deletions();
      for (size_t at = 0; at < last_.photos().size(); at += 32) {
        all.push_back(*digest_of(last_.photos().substr(at, 32)));
      }
    }
    links_.sent.clear();
    return all;
  }
  wire::FromStore inventory(uint64_t job, const std::vector<int>& photos) {
    std::set<Digest> digests;
    for (const int i : photos) digests.insert(photo_numbered(i));
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(job);
    i.add_names("cat");
    for (const Digest& d : digests) {
      i.mutable_digests()->append(bytes_of(d));
      i.mutable_sources()->push_back('\2');
      i.add_labels(1);
    }
    i.set_last(true);
    return m;
  }
  std::vector<Digest> manifest(uint64_t job) {
    const JobFiles files(fs_, "state/jobs/" + std::to_string(job));
    const auto kept = files.load_manifest().or_throw();
    std::vector<Digest> all;
    for (uint64_t n = 0; kept && n < kept->manifest.size(); ++n) {
      all.push_back(kept->manifest.entry(n).digest);
    }
    return all;
  }
  static std::vector<Digest> sorted(std::vector<Digest> photos) {
    std::ranges::sort(photos);
    return photos;
  }
  TunerService::Setting setting() { return setting(fs_); }
  TunerService::Setting setting(Fs& fs) {
    return {fs, clock_, state_, links_, lanes_, works_, models_, versions_, &keeper_};
  }

  std::vector<uint32_t> speaks_{std::begin(kProtocols), std::end(kProtocols)};
  Keeper keeper_;
  wire::Deletions last_;
  TunerIdentity again_ = state_.next_term(1).or_throw();
  TunerService tuner_{setting(), again_};
};

TEST_F(Deletions, AreToldToStoresThatAreHereAndToOthersWhenTheyComeBack) {
  greet(1, "a");
  remove(1);
  remove(2);
  remove(2);
  EXPECT_THAT(told(1), ElementsAre(photo_numbered(1), photo_numbered(2)));
  greet(2, "b");
  EXPECT_THAT(told(2), ElementsAre(photo_numbered(1), photo_numbered(2)));
  EXPECT_EQ(last_.count(), 2U);
  wire::FromStore done;
  done.mutable_deleted()->set_count(2);
  say(1, done);
  EXPECT_EQ(tuner_.stores()[0].deletions_due, 0U);
  EXPECT_EQ(tuner_.stores()[1].deletions_due, 2U);
  tuner_.handle({1, LinkClosed{"gone"}});
  remove(3);
  greet(3, "a", last_.count(), last_.mark());
  EXPECT_THAT(told(3), ElementsAre(photo_numbered(3)));
}

TEST_F(Deletions, OfAnotherListAreAllToldAgain) {
  remove(1);
  remove(2);
  greet(1, "a", 1, 4711);
  EXPECT_THAT(told(1), ElementsAre(photo_numbered(1), photo_numbered(2)));
  greet(2, "b", 7, last_.mark());
  EXPECT_THAT(told(2), ElementsAre(photo_numbered(1), photo_numbered(2)));
}

TEST_F(Deletions, AreNotToldToAStoreThatDoesNotKnowTheMessage) {
  speaks_ = {1};
  greet(1, "a");
  remove(1);
  EXPECT_THAT(told(1), IsEmpty());
}

TEST_F(Deletions, TravelInMessagesThatAreNotTooLong) {
  std::vector<Digest> many;
  for (int i = 0; i < 10'000; ++i) many.push_back(photo_numbered(i));
  (void)tuner_.delete_photos(many);
  greet(1, "a");
  EXPECT_EQ(std::ranges::count_if(links_.sent, [](auto& m) { return m.second.has_deletions(); }),
            3);
  EXPECT_EQ(told(1), many);
}

TEST_F(Deletions, RemoveLabelsEvenIfTheDatabaseIsAwayAtFirstAndAfterARestart) {
  keeper_.broken = true;
  remove(1);
  lanes_.run();
  tuner_.tick();
  EXPECT_TRUE(lanes_.tasks.empty()) << "asked again at once";
  keeper_.broken = false;
  clock_.advance(std::chrono::seconds(3));
  tuner_.tick();
  lanes_.run();
  EXPECT_THAT(keeper_.forgotten, ElementsAre(photo_numbered(1)));
  tuner_.tick();
  EXPECT_TRUE(lanes_.tasks.empty());
  keeper_.broken = true;
  remove(2);
  lanes_.run();
  keeper_.broken = false;
  TunerService restarted(setting(), state_.next_term(1).or_throw());
  lanes_.run();
  EXPECT_THAT(keeper_.forgotten, ElementsAre(photo_numbered(1), photo_numbered(2)));
}

TEST_F(Deletions, ThatPeopleAskAStoreForReachTheOthersToo) {
  greet(1, "a");
  greet(2, "b");
  wire::Upload line, other;
  line.set_digest(bytes_of(photo_numbered(1)));
  line.set_removed(true);
  line.set_sequence(1);
  other.set_digest(bytes_of(photo_numbered(2)));
  other.set_path("x");
  other.set_sequence(2);
  wire::FromStore m;
  *m.mutable_uploads()->add_lines() = line.SerializeAsString();
  *m.mutable_uploads()->add_lines() = other.SerializeAsString();
  const std::string all = m.uploads().lines(0) + m.uploads().lines(1);
  m.mutable_uploads()->set_checksum(xxh3(all.data(), all.size()));
  say(1, m);
  lanes_.run();
  EXPECT_TRUE(links_.sent.back().second.has_uploads_kept());
  EXPECT_EQ(links_.sent.back().second.uploads_kept().sequence(), 2U);
  EXPECT_THAT(told(2), ElementsAre(photo_numbered(1)));
  EXPECT_THAT(keeper_.forgotten, ElementsAre(photo_numbered(1)));
  EXPECT_THAT(keeper_.kept, ElementsAre(photo_numbered(2)));
  // b had it, and says so only now.
  wire::FromStore late;
  line.clear_removed();
  line.set_path("x");
  *late.mutable_uploads()->add_lines() = line.SerializeAsString();
  late.mutable_uploads()->set_checksum(
      xxh3(late.uploads().lines(0).data(), late.uploads().lines(0).size()));
  say(2, late);
  lanes_.run();
  EXPECT_TRUE(links_.sent.back().second.has_uploads_kept());
  EXPECT_THAT(keeper_.kept, ElementsAre(photo_numbered(2)));
}

TEST_F(Deletions, LeaveAJobThatBeginsLaterWithoutThem) {
  remove(1);
  lanes_.run();
  const uint64_t job = tuner_.submit({.model = to_hex(model_), .stores = 1});
  lanes_.run();
  greet(1, "a");
  say(1, inventory(job, {1, 2, 3}));
  lanes_.run();
  EXPECT_EQ(manifest(job), sorted({photo_numbered(2), photo_numbered(3)}));
}

TEST_F(Deletions, LeaveTheFilesOfAJobInProgressWhenItIsOver) {
  const uint64_t job = tuner_.submit({.model = to_hex(model_), .stores = 1});
  lanes_.run();
  greet(1, "a");
  say(1, inventory(job, {1, 2}));
  lanes_.run();
  for (const char* d :
       {"spool", "run", "survey", "survey/spool", "production", "production/spool"}) {
    fs_.make_directories(std::string("state/jobs/1/") + d).or_throw();
    publish(fs_, std::string("state/jobs/1/") + d + "/of-photos", "").or_throw();
  }
  remove(1);
  lanes_.run();
  EXPECT_THAT(keeper_.forgotten, ElementsAre(photo_numbered(1))) << "labels go at once";
  EXPECT_EQ(manifest(job).size(), 2U);
  tuner_.pause(job);
  tuner_.tick();
  lanes_.run();
  EXPECT_THAT(manifest(job), IsEmpty());
  EXPECT_FALSE(fs_.exists("state/jobs/1/spool/of-photos"));
  EXPECT_FALSE(fs_.exists("state/jobs/1/run/of-photos"));
  EXPECT_FALSE(fs_.exists("state/jobs/1/survey/spool/of-photos"));
  EXPECT_FALSE(fs_.exists("state/jobs/1/production/spool/of-photos"));
  tuner_.resume(job);  // and begins anew
  lanes_.run();
  say(1, inventory(job, {1, 2}));
  lanes_.run();
  EXPECT_EQ(manifest(job), sorted({photo_numbered(2)}));
}

TEST_F(Deletions, LeaveTheManifestsOfJobsThatAreDone) {
  JobFiles files(fs_, "state/jobs/9");
  const JobRecord record{.id = 9, .spec = {.model = to_hex(model_)}, .state = JobState::kDone};
  files.save(record).or_throw();
  const auto claim = [](int i) { return PhotoClaim{.digest = photo_numbered(i), .label = "cat"}; };
  const std::vector<std::vector<PhotoClaim>> photos = {{claim(1), claim(2)}, {claim(2), claim(3)}};
  files.save_manifest(Manifest(photos, {}), {"a", "b"}).or_throw();
  TunerService tuner(setting(), state_.next_term(1).or_throw());
  const std::vector<Digest> gone = {photo_numbered(2), photo_numbered(7)};
  (void)tuner.delete_photos(gone);
  lanes_.run();
  EXPECT_EQ(manifest(9), sorted({photo_numbered(1), photo_numbered(3)}));
}

// Which files are read, and how much of each.
class ReadsOfFs final : public sim::ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    auto file = ForwardingFs::open(path, mode);
    if (!file.ok() || mode != Mode::kRead) return file;
    return std::unique_ptr<File>(std::make_unique<Counted>(std::move(*file), read[path]));
  }

  std::map<std::string, size_t> read;  // bytes, by path

 private:
  class Counted final : public sim::ForwardingFile {
   public:
    Counted(std::unique_ptr<File> file, size_t& bytes)
        : ForwardingFile(std::move(file)), bytes_(bytes) {}
    Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
      const auto n = ForwardingFile::read_at(offset, to);
      if (n.ok()) bytes_ += *n;
      return n;
    }

   private:
    size_t& bytes_;
  };
};

void save_done(Fs& fs, uint64_t job, const std::string& model, int first, int end) {
  JobFiles files(fs, "state/jobs/" + std::to_string(job));
  files.save({.id = job, .spec = {.model = model}, .state = JobState::kDone}).or_throw();
  std::vector<PhotoClaim> photos;
  for (int i = first; i < end; ++i) {
    photos.push_back({.digest = photo_numbered(i), .label = "cat"});
  }
  std::ranges::sort(photos, {}, &PhotoClaim::digest);
  files.save_manifest(Manifest(std::vector<std::vector<PhotoClaim>>{photos}, {}), {"a"}).or_throw();
  const UnreadablePhoto bad{.photo = photo_numbered(1000), .store = "a", .path = "x", .why = "y"};
  files.save_quarantine({&bad, 1}).or_throw();
}

TEST_F(Deletions, ReadNoMoreOfJobsThatAreDoneThanWhetherTheyNameThem) {
  save_done(fs_, 8, to_hex(model_), 0, 10);
  save_done(fs_, 9, to_hex(model_), 5, 900);
  const std::string one = "state/jobs/8/", other = "state/jobs/9/";
  ReadsOfFs fs(fs_);
  TunerService tuner(setting(fs), state_.next_term(1).or_throw());
  const auto remove_and_read = [&](int i) {
    fs.read.clear();
    const Digest photo = photo_numbered(i);
    (void)tuner.delete_photos({&photo, 1});
    lanes_.run();
    std::erase_if(fs.read, [](const auto& r) { return !r.first.starts_with("state/jobs/"); });
    return fs.read;
  };
  EXPECT_GT(remove_and_read(2000).at(other + "manifest.cbor"), 900 * sizeof(Digest)) << "once";
  for (int i = 2001; i < 2010; ++i) {
    const auto read = remove_and_read(i);
    ASSERT_EQ(read.size(), 2U) << "neither records nor what could not be read";
    EXPECT_LE(read.at(one + "manifest.cbor"), 4 * sizeof(Digest));
    EXPECT_LE(read.at(other + "manifest.cbor"), 10 * sizeof(Digest));
  }
  const auto read = remove_and_read(500);
  EXPECT_EQ(manifest(9).size(), 894U);
  EXPECT_LE(read.at(one + "manifest.cbor"), 4 * sizeof(Digest)) << "it does not name that photo";
  EXPECT_FALSE(read.contains(one + "job.json") || read.contains(other + "job.json"));
  (void)remove_and_read(7);
  EXPECT_EQ(manifest(8).size(), 9U);
  EXPECT_EQ(manifest(9).size(), 893U);
  (void)remove_and_read(1000);
  for (const uint64_t job : {8, 9}) {
    const JobFiles files(fs_, "state/jobs/" + std::to_string(job));
    EXPECT_TRUE(files.load_quarantine().or_throw().empty());
  }
}

TEST_F(Deletions, ReadAListOfPhotosAnewThatIsAnotherOne) {
  save_done(fs_, 9, to_hex(model_), 0, 20);
  TunerService tuner(setting(), state_.next_term(1).or_throw());
  const auto remove_one = [&](int i) {
    const Digest photo = photo_numbered(i);
    (void)tuner.delete_photos({&photo, 1});
    lanes_.run();
  };
  remove_one(100);
  save_done(fs_, 9, to_hex(model_), 90, 120);
  remove_one(95);
  EXPECT_EQ(manifest(9).size(), 29U);
  fs_.remove("state/jobs/9/manifest.cbor").or_throw();
  remove_one(96);
  EXPECT_EQ(manifest(9), std::vector<Digest>());
}

TEST(ListedDigests, AreFoundInTheirOrderAndNowhereElse) {
  MemoryFs fs;
  for (const int n : {0, 1, 2, 3, 31, 200}) {
    std::vector<PhotoClaim> photos;
    for (int i = 0; i < n; ++i) photos.push_back({.digest = photo_numbered(i), .label = "digests"});
    std::ranges::sort(photos, {}, &PhotoClaim::digest);
    JobFiles files(fs, "jobs/1");
    fs.make_directories("jobs/1").or_throw();
    files
        .save_manifest(Manifest(std::vector<std::vector<PhotoClaim>>{photos}, {}),
                       {"gdigestsX ", "a"})
        .or_throw();
    const std::string bytes = files.manifest_bytes().or_throw().value();
    const auto info = fs.info(files.manifest_path()).or_throw();
    const auto list = ListedDigests::find(bytes, info);
    ASSERT_TRUE(list);
    EXPECT_EQ(list->size(), static_cast<uint64_t>(n));
    for (int i = 0; i < 2 * n + 2; ++i) {
      const std::set<Digest> two = {photo_numbered(i), photo_numbered(5000 + i)};
      EXPECT_EQ(list->has_any(fs, files.manifest_path(), two).or_throw(), i < n) << i;
    }
    for (size_t end = 0; end < bytes.size(); ++end) {  // what ends anywhere is read no further
      const auto cut = ListedDigests::find(std::string_view(bytes).substr(0, end), info);
      EXPECT_TRUE(!cut || cut->size() == static_cast<uint64_t>(n));
    }
  }
  const auto info = fs.info("jobs/1/manifest.cbor").or_throw();
  const std::string falling =
      "\xa1\x67"
      "digests\x58\x40" +
      std::string(32, 'b') + std::string(32, 'a');
  EXPECT_FALSE(ListedDigests::find(falling, info));
  EXPECT_FALSE(ListedDigests::find("no CBOR", info));
}

TEST_F(Deletions, OfFewOrManyPhotosLeaveAJobAloneThatHasNoneOfThem) {
  JobFiles files(fs_, "jobs/9");
  const std::vector<std::vector<PhotoClaim>> photos = {
      {PhotoClaim{.digest = photo_numbered(1), .label = "cat"}}};
  fs_.make_directories("jobs/9/spool").or_throw();
  files.save_manifest(Manifest(photos, {}), {"a"}).or_throw();
  publish(fs_, "jobs/9/spool/of-photos", "").or_throw();
  std::set<Digest> others;
  for (int i = 2; i < 20; ++i) {
    others.insert(photo_numbered(i));
    files.forget(others, true).or_throw();
    EXPECT_TRUE(fs_.exists("jobs/9/spool/of-photos")) << i;
  }
  others.insert(photo_numbered(1));
  files.forget(others, true).or_throw();
  EXPECT_FALSE(fs_.exists("jobs/9/spool/of-photos"));
  EXPECT_EQ(files.load_manifest().or_throw()->manifest.size(), 0U);
}

// Else the next Tuner would go on with it, by runs that were closed with other photos.
TEST_F(Deletions, OfAJobThatIsDoneComeAfterItsFileSaysSo) {
  JobFiles files(fs_, "state/jobs/9");
  JobRecord record{.id = 9, .spec = {.model = to_hex(model_)}, .state = JobState::kDone};
  files.save(record).or_throw();
  const auto claim = [](int i) { return PhotoClaim{.digest = photo_numbered(i), .label = "cat"}; };
  const std::vector<std::vector<PhotoClaim>> photos = {{claim(1), claim(2)}};
  files.save_manifest(Manifest(photos, {}), {"a"}).or_throw();
  TunerService tuner(setting(), state_.next_term(1).or_throw());
  record.state = JobState::kRunning;  // as where the disk was full when the job ended
  files.save(record).or_throw();
  const Digest gone = photo_numbered(2);
  (void)tuner.delete_photos({&gone, 1});
  fs_.set_capacity(0);
  lanes_.run();
  EXPECT_EQ(manifest(9).size(), 2U) << "it is full still";
  EXPECT_EQ(files.load().or_throw().state, JobState::kRunning);
  fs_.set_capacity(1 << 20);
  clock_.advance(tuner.next() - clock_.monotonic());
  tuner.tick();
  lanes_.run();
  EXPECT_EQ(files.load().or_throw().state, JobState::kDone);
  EXPECT_EQ(manifest(9), std::vector{photo_numbered(1)});
}

TEST_F(Deletions, AreNotAnsweredAfterAnFsyncThatFailed) {
  const FsyncThrows throws;
  const HttpServer::Route route = photo_deletion([this](const auto& f) { return f(tuner_); },
                                                 []() -> LabelDb& { throw Error("no labels"); });
  const HttpRequest request{.method = "DELETE", .captures = {to_hex(photo_numbered(1))}};
  fs_.fail_call(3);  // the list is made, written, and synced
  EXPECT_THROW((void)route.handle(request), FsyncFailed);
}

TEST(JobFilesTest, AnFsyncThatFailsWhileTheyAreRemovedEndsTheProcess) {
  const FsyncThrows throws;
  MemoryFs fs;
  JobFiles files(fs, "jobs/1");
  fs.make_directories("jobs/1/survey/spool").or_throw();
  publish(fs, "jobs/1/survey/spool/of-photos", "").or_throw();
  fs.fail_call(2);  // it is removed; its directory is synced
  EXPECT_THROW((void)files.forget({photo_numbered(1)}, true).ok(), FsyncFailed);
}

// Or the photos would never be gone from the other jobs.
TEST_F(Deletions, AreDoneThoughAJobsListOfPhotosIsDamaged) {
  const auto claim = [](int i) { return PhotoClaim{.digest = photo_numbered(i), .label = "cat"}; };
  const std::vector<std::vector<PhotoClaim>> photos = {{claim(1), claim(2)}};
  for (const uint64_t job : {8, 9}) {
    JobFiles files(fs_, "state/jobs/" + std::to_string(job));
    files.save({.id = job, .spec = {.model = to_hex(model_)}, .state = JobState::kDone}).or_throw();
    files.save_manifest(Manifest(photos, {}), {"a"}).or_throw();
  }
  const std::string path = "state/jobs/8/manifest.cbor";
  std::string bytes = fs_.read(path).or_throw();
  bytes[bytes.size() / 2] ^= 1;
  support::write_file(fs_, path, bytes);
  TunerService tuner(setting(), state_.next_term(1).or_throw());
  const std::vector<Digest> gone = {photo_numbered(2)};
  (void)tuner.delete_photos(gone);
  lanes_.run();
  EXPECT_FALSE(fs_.exists(path));
  EXPECT_EQ(manifest(9), sorted({photo_numbered(1)}));
}

}  // namespace
}  // namespace ndtrain::tuner
