// What stores hold, asked of files: against a map of sets, through restarts, damage and crashes.
#include "tuner/service/photo_holders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/core/coding.h"
#include "framework/core/log.h"
#include "framework/core/rng.h"
#include "framework/testing/faulty_fs.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "tests/sim/forwarding_fs.h"
#include "tests/support/waiting_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

Digest numbered_photo(uint64_t number) { return sha256("photo " + std::to_string(number)); }

std::vector<Digest> numbered_photos(uint64_t begin, uint64_t end) {
  std::vector<Digest> all;
  for (uint64_t n = begin; n < end; ++n) all.push_back(numbered_photo(n));
  std::ranges::sort(all);
  return all;
}

class ReadCountingFs final : public sim::ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  uint64_t reads = 0, bytes = 0;

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
    if (!file.ok()) return file;
    return std::unique_ptr<File>(std::make_unique<Counted>(*this, std::move(*file)));
  }

 private:
  class Counted final : public sim::ForwardingFile {
   public:
    Counted(ReadCountingFs& fs, std::unique_ptr<File> file)
        : ForwardingFile(std::move(file)), fs_(fs) {}
    Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
      ++fs_.reads;
      fs_.bytes += to.size();
      return ForwardingFile::read_at(offset, to);
    }

   private:
    ReadCountingFs& fs_;
  };
};

// Lanes and who is known, of one life of a Tuner.
struct HoldersLife {
  explicit HoldersLife(Fs& fs, std::set<std::string> stores = {"attic", "barn", "cellar"})
      : known(std::move(stores)), holders({fs, "state", lanes, [this](const std::string& name) {
                                             return known.contains(name);
                                           }}) {}
  void set(const std::string& store, std::vector<Digest> photos) {
    holders.set(store,
                std::make_shared<const std::pmr::vector<Digest>>(photos.begin(), photos.end()));
  }
  bool holds(const std::string& store, const Digest& photo) const {
    return holders.holds(store, photo).or_throw();
  }
  bool held_elsewhere(const std::string& store, const Digest& photo) const {
    return holders.held_elsewhere(store, photo).or_throw();
  }
  std::vector<Digest> photos_of(const std::string& store) const {
    return holders.photos_of(store).or_throw();
  }

  std::set<std::string> known;
  support::WaitingLanes lanes;
  PhotoHolders holders;
};

std::string holders_file(const std::string& store) {
  return "state/holders/" + to_hex(sha256(store)) + ".set";
}

class PhotoHoldersTest : public ::testing::Test {
 protected:
  PhotoHoldersTest() { log::set_level(log::Level::kOff); }
  ~PhotoHoldersTest() override { log::set_level(log::Level::kInfo); }

  void put(const std::string& store, const std::string& bytes) {
    const auto file = fs_.open(holders_file(store), Fs::Mode::kCreate).or_throw();
    file->append(std::as_bytes(std::span(bytes))).or_throw();
  }
  std::string bytes_of(const std::string& store) {
    return fs_.read(holders_file(store)).or_throw();
  }

  MemoryFs fs_;
  const FsyncThrows throws_;
};

using Held = std::map<std::string, std::set<Digest>>;

void expect_same(const HoldersLife& life, const Held& held, Rng& rng, uint64_t photos) {
  for (const char* const store : {"attic", "barn", "cellar", "shed"}) {
    const auto at = held.find(store);
    const std::set<Digest> own = at == held.end() ? std::set<Digest>() : at->second;
    ASSERT_EQ(life.holders.heard_of(store), at != held.end()) << store;
    ASSERT_EQ(life.holders.number_of(store), own.size()) << store;
    ASSERT_EQ(life.photos_of(store), std::vector<Digest>(own.begin(), own.end())) << store;
    for (int i = 0; i < 50; ++i) {
      const Digest photo = numbered_photo(rng.next_below(photos));
      ASSERT_EQ(life.holds(store, photo), own.contains(photo)) << store;
      const bool elsewhere = std::ranges::any_of(held, [&](const auto& other) {
        return other.first != store && other.second.contains(photo);
      });
      ASSERT_EQ(life.held_elsewhere(store, photo), elsewhere) << store;
    }
  }
}

TEST_F(PhotoHoldersTest, SayWhatAMapOfSetsSays) {
  constexpr uint64_t kPhotos = 1500;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed, "holders");
    MemoryFs disk;
    auto life = std::make_unique<HoldersLife>(disk);
    Held held, durable;
    for (int step = 0; step < 30; ++step) {
      const std::string store = std::array{"attic", "barn", "cellar"}[rng.next_below(3)];
      const uint64_t what = rng.next_below(6);
      if (what == 0) {
        life->holders.forget(store);
        held.erase(store), durable.erase(store);
      } else if (what == 1) {
        life.reset();
        life = std::make_unique<HoldersLife>(disk);
        held = durable;
      } else if (what == 2) {
        life->lanes.run();
        durable = held;
      } else {
        // None, one, those that fill blocks, and others.
        const uint64_t most = std::array{0, 1, 127, 128, 254, 1300}[rng.next_below(6)];
        std::set<Digest> photos;
        while (photos.size() < most) photos.insert(numbered_photo(rng.next_below(kPhotos)));
        life->set(store, {photos.begin(), photos.end()});
        held[store] = std::move(photos);
      }
      expect_same(*life, held, rng, kPhotos);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PhotoHoldersTest, NothingOfAStoreThatIsNotKnownStaysOnDisk) {
  HoldersLife life(fs_);
  life.set("shed", numbered_photos(0, 10));
  life.set("barn", numbered_photos(5, 20));
  life.lanes.run();
  EXPECT_FALSE(fs_.exists(holders_file("shed")));
  EXPECT_TRUE(life.holds("shed", numbered_photo(3)));
  EXPECT_TRUE(HoldersLife(fs_).holds("barn", numbered_photo(7)));
  EXPECT_FALSE(HoldersLife(fs_, {"attic"}).holders.heard_of("barn"));
  EXPECT_FALSE(fs_.exists(holders_file("barn")));
}

TEST_F(PhotoHoldersTest, AStoreThatIsForgottenWhileItsFileIsWrittenLeavesNone) {
  HoldersLife life(fs_);
  life.set("barn", numbered_photos(0, 10));
  const Continuation after = life.lanes.tasks.front()();
  life.lanes.tasks.clear();
  life.holders.forget("barn");
  EXPECT_TRUE(life.holders.number_of("barn") == 0);
  after();
  EXPECT_FALSE(fs_.exists(holders_file("barn")));
}

TEST_F(PhotoHoldersTest, WithoutRoomOnDiskItStaysInMemory) {
  HoldersLife life(fs_);
  fs_.set_capacity(1000);
  life.set("barn", numbered_photos(0, 100));
  life.lanes.run();
  EXPECT_TRUE(life.holds("barn", numbered_photo(7)));
  EXPECT_EQ(life.photos_of("barn"), numbered_photos(0, 100));
  EXPECT_FALSE(fs_.exists(holders_file("barn")));
}

TEST_F(PhotoHoldersTest, WhatWasDeletedIsInNoFileAndInNoMemory) {
  HoldersLife life(fs_);
  life.set("attic", numbered_photos(0, 400));
  life.set("barn", numbered_photos(200, 600));
  life.lanes.run();
  life.known.erase("cellar");
  life.set("cellar", numbered_photos(300, 500));  // stays in memory
  const Digest gone = numbered_photo(350), kept = numbered_photo(351), barns = numbered_photo(599);
  const std::set<Digest> deleted = {gone, barns};
  ASSERT_FALSE(life.holders.writing());

  std::vector<PhotoHolders::Rewrite> files = life.holders.begin_forgetting(deleted).or_throw();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_FALSE(life.holds("cellar", gone));
  const auto others_are_held = [&] {
    return life.holds("attic", kept) && life.holds("barn", kept) && life.holds("cellar", kept) &&
           !life.holds("attic", barns);
  };
  EXPECT_TRUE(others_are_held());
  for (PhotoHolders::Rewrite& file : files) {
    PhotoHolders::forget_in(fs_, deleted, file).or_throw();
    EXPECT_TRUE(others_are_held()) << "while the file is another already";
  }
  life.holders.end_forgetting(std::move(files));
  EXPECT_TRUE(others_are_held());
  for (const Digest& photo : deleted) {
    const std::string bytes(reinterpret_cast<const char*>(photo.data()), photo.size());
    for (const char* const store : {"attic", "barn"}) {
      EXPECT_FALSE(life.holds(store, photo));
      EXPECT_EQ(bytes_of(store).find(bytes), std::string::npos);
    }
  }
  EXPECT_EQ(life.holders.number_of("attic"), 399U);
  EXPECT_EQ(life.holders.number_of("barn"), 398U);
  EXPECT_EQ(HoldersLife(fs_).photos_of("barn"), life.photos_of("barn"));
  EXPECT_TRUE(life.holders.begin_forgetting(deleted).or_throw().empty());
}

TEST_F(PhotoHoldersTest, WhatAStoreSaysWhileOthersAreForgottenCounts) {
  HoldersLife life(fs_);
  life.set("attic", numbered_photos(0, 400));
  life.set("barn", numbered_photos(0, 400));
  life.lanes.run();
  const std::set<Digest> deleted = {numbered_photo(1)};
  std::vector<PhotoHolders::Rewrite> files = life.holders.begin_forgetting(deleted).or_throw();
  for (PhotoHolders::Rewrite& file : files) {
    PhotoHolders::forget_in(fs_, deleted, file).or_throw();
  }
  life.set("attic", numbered_photos(2, 10));
  life.holders.forget("barn");
  life.holders.end_forgetting(std::move(files));
  life.lanes.run();
  EXPECT_EQ(life.photos_of("attic"), numbered_photos(2, 10));
  EXPECT_FALSE(life.holders.heard_of("barn"));
  EXPECT_FALSE(fs_.exists(holders_file("barn")));
  EXPECT_EQ(HoldersLife(fs_).photos_of("attic"), numbered_photos(2, 10));
}

TEST_F(PhotoHoldersTest, AFileThatCannotBeWrittenAgainStaysAsItIs) {
  HoldersLife life(fs_);
  life.set("attic", numbered_photos(0, 4000));
  life.lanes.run();
  const std::set<Digest> deleted = {numbered_photo(1)};
  std::vector<PhotoHolders::Rewrite> files = life.holders.begin_forgetting(deleted).or_throw();
  fs_.set_capacity(0);
  EXPECT_FALSE(PhotoHolders::forget_in(fs_, deleted, files.at(0)).ok());
  fs_.set_capacity(1 << 30);
  life.holders.end_forgetting(std::move(files));
  EXPECT_EQ(life.holders.number_of("attic"), 4000U);
  EXPECT_TRUE(life.holds("attic", numbered_photo(1)));
  files = life.holders.begin_forgetting(deleted).or_throw();
  PhotoHolders::forget_in(fs_, deleted, files.at(0)).or_throw();
  life.holders.end_forgetting(std::move(files));
  EXPECT_FALSE(life.holds("attic", numbered_photo(1)));
}

TEST_F(PhotoHoldersTest, OfADamagedFileNothingIsHeardUntilItIsSaidAgain) {
  Rng rng(3, "damage");
  const std::vector<Digest> photos = numbered_photos(0, 1000);
  {
    HoldersLife life(fs_);
    life.set("barn", photos);
    life.set("attic", photos);
    life.lanes.run();
  }
  const std::string whole = bytes_of("barn");
  const auto expect_found = [&](const std::string& bytes) {
    put("barn", bytes);
    EXPECT_EQ(DigestSetFile::open(fs_, holders_file("barn")).ok() &&
                  DigestSetFile::open(fs_, holders_file("barn")).or_throw().check().ok(),
              false);
    HoldersLife life(fs_);
    (void)life.holds("barn", photos[0]);  // reads the filter
    const std::vector<Digest> read = life.photos_of("barn");
    EXPECT_TRUE(read.empty());
    EXPECT_FALSE(life.holders.heard_of("barn"));
    EXPECT_FALSE(life.holds("barn", photos[1]));
    EXPECT_TRUE(life.held_elsewhere("barn", photos[1])) << "attic's is another file";
    EXPECT_FALSE(fs_.exists(holders_file("barn")));
    life.set("barn", photos);
    life.lanes.run();
    EXPECT_TRUE(life.holds("barn", photos[1]));
    EXPECT_EQ(bytes_of("barn"), whole);
  };
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    const size_t where = rng.next_below(bytes.size());
    bytes[where] = static_cast<char>(bytes[where] ^ (1 << rng.next_below(8)));
    SCOPED_TRACE("byte " + std::to_string(where));
    expect_found(bytes);
  }
  for (size_t size = 0; size < whole.size(); size += 1024) expect_found(whole.substr(0, size));
  expect_found(whole + "x");
  std::string swapped = whole;  // two blocks of the same set
  std::swap_ranges(swapped.begin() + 4096, swapped.begin() + 8192, swapped.begin() + 8192);
  expect_found(swapped);
  EXPECT_TRUE(HoldersLife(fs_).holds("attic", photos[1]));
}

// What could not be found out is neither a yes nor a no.
TEST_F(PhotoHoldersTest, WhatADiskDoesNotGiveIsAnErrorAndNoAnswer) {
  const Digest attics = numbered_photo(1), barns = numbered_photo(300),
               nobodys = numbered_photo(999);
  {
    HoldersLife life(fs_);
    life.set("attic", numbered_photos(0, 300));
    life.set("barn", numbered_photos(200, 500));
    life.lanes.run();
  }
  for (const Fault fault : {Fault::kIo, Fault::kTooManyFiles}) {
    for (const bool from_the_start : {false, true}) {
      SCOPED_TRACE(std::string(name_of(fault)) + (from_the_start ? " from the start" : ""));
      FaultyFs disk(fs_);
      // Both files: behind the list, an open and a read of each.
      disk.strike(from_the_start ? 2 : 0, fault, true);
      HoldersLife life(disk);
      disk.strike(1, fault, true);
      EXPECT_TRUE(life.holders.heard_of("attic") && life.holders.heard_of("barn"));
      EXPECT_FALSE(life.holders.holds("attic", attics).ok());
      EXPECT_FALSE(life.holders.held_elsewhere("barn", attics).ok());
      EXPECT_FALSE(life.holders.held_elsewhere("cellar", nobodys).ok());
      EXPECT_FALSE(life.holders.photos_of("barn").ok());
      EXPECT_FALSE(life.holders.begin_forgetting({attics}).ok());
      EXPECT_FALSE(life.holds("cellar", attics)) << "of which nothing was heard";
      disk.heal();
      EXPECT_TRUE(life.holds("attic", attics) && life.holds("barn", barns));
      EXPECT_TRUE(life.held_elsewhere("barn", attics) && !life.held_elsewhere("attic", attics));
      EXPECT_FALSE(life.held_elsewhere("cellar", nobodys));
      EXPECT_EQ(life.photos_of("barn"), numbered_photos(200, 500));
      EXPECT_EQ(life.holders.begin_forgetting({attics}).or_throw().size(), 1U);
    }
  }
}

TEST_F(PhotoHoldersTest, WhatIsSaidOrForgottenMeanwhileCountsInsteadOfAFileThatCouldNotBeRead) {
  {
    HoldersLife life(fs_);
    life.set("attic", numbered_photos(0, 10));
    life.set("barn", numbered_photos(0, 10));
    life.lanes.run();
  }
  FaultyFs disk(fs_);
  disk.strike(2, Fault::kIo, true);
  HoldersLife life(disk);
  disk.heal();
  life.set("attic", numbered_photos(20, 30));
  life.holders.forget("barn");
  life.lanes.run();
  EXPECT_EQ(life.photos_of("attic"), numbered_photos(20, 30));
  EXPECT_FALSE(life.holders.heard_of("barn"));
  EXPECT_FALSE(fs_.exists(holders_file("barn")));
}

// A block of another set, whose own checksum is right.
TEST_F(PhotoHoldersTest, ABlockOfAnEarlierFileIsFound) {
  HoldersLife life(fs_);
  life.set("barn", numbered_photos(0, 500));
  life.lanes.run();
  const std::string before = bytes_of("barn");
  life.set("barn", numbered_photos(100, 600));
  life.lanes.run();
  std::string mixed = bytes_of("barn");
  ASSERT_EQ(mixed.size(), before.size());
  mixed.replace(4096, 4096, before, 4096, 4096);
  put("barn", mixed);
  EXPECT_TRUE(life.photos_of("barn").empty());
  EXPECT_FALSE(life.holders.heard_of("barn"));
}

TEST_F(PhotoHoldersTest, ACrashLeavesWhatWasSaidBeforeOrThen) {
  const std::vector<Digest> before = numbered_photos(0, 300), then = numbered_photos(200, 700);
  int crashes = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    for (int64_t n = 1;; ++n, ++crashes) {
      SCOPED_TRACE("call " + std::to_string(n));
      MemoryFs disk;
      {
        HoldersLife life(disk);
        life.set("barn", before);
        life.lanes.run();
        const int64_t calls = disk.mutating_calls();
        disk.die_in_call(n);
        life.set("barn", then);
        bool ended = false;
        try {
          life.lanes.run();
        } catch (const FsyncFailed&) {
          ended = true;  // as the process would
        }
        if (!ended && disk.mutating_calls() - calls < n) break;
      }
      Rng rng(seed, "crash");
      disk.crash(rng);
      HoldersLife life(disk);
      const std::vector<Digest> now = life.photos_of("barn");
      EXPECT_TRUE(now == before || now == then) << now.size();
    }
  }
  EXPECT_GT(crashes, 20);
}

TEST_F(PhotoHoldersTest, ALookupReadsFewBlocks) {
  constexpr uint64_t kPhotos = 50'000, kLookups = 2000;
  DigestFilter filter;
  ReadCountingFs fs(fs_);
  fs.make_directories("d").or_throw();
  ASSERT_TRUE(write_digest_set(fs, "d/set", "barn", numbered_photos(0, kPhotos), filter).ok());
  DigestSetFile file = DigestSetFile::open(fs, "d/set").or_throw();
  uint64_t most = 0;
  fs.reads = fs.bytes = 0;
  for (uint64_t i = 0; i < kLookups; ++i) {
    const uint64_t before = fs.reads;
    EXPECT_EQ(file.has(numbered_photo(i * 50)).or_throw(), i * 50 < kPhotos);
    most = std::max(most, fs.reads - before);
  }
  EXPECT_LE(fs.reads, 2 * kLookups);
  EXPECT_LE(most, 6U);
  EXPECT_EQ(fs.bytes, fs.reads * 4096);
}

TEST_F(PhotoHoldersTest, DigestsThatSomebodyChoseAreFoundByHalves) {
  std::vector<Digest> chosen(50'000);  // nearly all begin alike
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i].fill(0xff);
    const size_t at = i < 10 ? 0 : 24;
    for (size_t b = 0; b < 8; ++b) chosen[i][at + b] = static_cast<uint8_t>(i >> (56 - 8 * b));
  }
  DigestFilter filter;
  ReadCountingFs fs(fs_);
  fs.make_directories("d").or_throw();
  ASSERT_TRUE(write_digest_set(fs, "d/set", "barn", chosen, filter).ok());
  DigestSetFile file = DigestSetFile::open(fs, "d/set").or_throw();
  EXPECT_TRUE(file.check().ok());
  for (size_t i = 0; i < chosen.size(); i += 997) {
    const uint64_t before = fs.reads;
    EXPECT_TRUE(file.has(chosen[i]).or_throw());
    EXPECT_LE(fs.reads - before, 4U + 10);
  }
}

// So a photo that no store has costs no reads, but for one in a hundred of the stores.
TEST_F(PhotoHoldersTest, TheFilterKnowsMostThatAreNotThere) {
  DigestFilter filter(10'000);
  for (uint64_t n = 0; n < 10'000; ++n) filter.add(numbered_photo(n));
  int may = 0;
  for (uint64_t n = 0; n < 20'000; ++n) {
    const bool has = filter.may_have(numbered_photo(n));
    EXPECT_TRUE(has || n >= 10'000);
    may += has && n >= 10'000;
  }
  EXPECT_LT(may, 200);
  EXPECT_FALSE(DigestFilter().may_have(numbered_photo(0)));
}

}  // namespace
}  // namespace ndtrain::tuner
