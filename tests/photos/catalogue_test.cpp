#include "ndp/photos/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "framework/testing/memory_fs.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/places_source.h"
#include "tests/photos/broken_fs.h"
#include "tests/photos/golden_formats.h"
#include "tests/photos/photo_factory.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using support::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string photo(int i) { return testing::jpeg_of(testing::flat(8, 8, i, 255 - i, i / 2)); }

std::string text_of(const PhotoChange& c) {
  static constexpr const char* kNames[] = {"added",   "moved",   "changed",
                                           "missing", "deleted", "returned"};
  const std::string from = c.from.empty() ? "" : c.from + " -> ";
  return std::string(kNames[static_cast<size_t>(c.kind)]) + " " + from + c.path;
}

class CatalogueTest : public ::testing::Test {
 protected:
  CatalogueTest() {
    catalogue_ = open().or_throw();
    for (int i = 0; i < 5; ++i) write_file(memory_, name(i), photo(i * 40));
  }

  static std::string name(int i) { return "r/d/" + std::to_string(i) + ".jpg"; }
  Result<std::unique_ptr<Catalogue>> open() {
    return Catalogue::open(real_fs(), directory_.path());
  }

  // A scan's changes, sorted.
  std::vector<std::string> scan(size_t page = 2) {
    DirectorySource source(fs_, "r");
    std::vector<std::string> changes;
    report_ = catalogue_
                  ->scan(source, pool_,
                         {.page = page,
                          .on_change = [&](const PhotoChange& c) { changes.push_back(text_of(c)); },
                          .on_page = {}})
                  .or_throw();
    std::sort(changes.begin(), changes.end());
    return changes;
  }
  CatalogueEntry entry(const std::string& path) {
    std::optional<CatalogueEntry> e = catalogue_->find(path).or_throw();
    if (!e) throw Error(path, " is not in the catalogue");
    return *e;
  }

  const support::TemporaryDirectory directory_;
  MemoryFs memory_;
  testing::BrokenFs fs_{memory_};
  ThreadPool pool_{1};
  std::unique_ptr<Catalogue> catalogue_;
  ScanReport report_;
};

TEST_F(CatalogueTest, TheFirstScanAddsEverythingWithItsHash) {
  EXPECT_THAT(scan(), ElementsAre("added d/0.jpg", "added d/1.jpg", "added d/2.jpg",
                                  "added d/3.jpg", "added d/4.jpg"));
  EXPECT_EQ(report_.seen, 5);
  EXPECT_EQ(report_.hashed, 5);
  EXPECT_EQ(report_.added, 5);
  EXPECT_EQ(entry("d/3.jpg").digest, sha256(photo(120)));
  EXPECT_EQ(catalogue_->counts().or_throw(), (CatalogueCounts{.ok = 5}));
}

TEST_F(CatalogueTest, AnUnchangedPhotoIsNotReadAgainNotEvenAfterReopening) {
  scan();
  catalogue_.reset();
  catalogue_ = open().or_throw();
  fs_.opened = 0;
  EXPECT_THAT(scan(), IsEmpty());
  EXPECT_EQ(fs_.opened, 0);
  EXPECT_EQ(report_.seen, 5);
  EXPECT_EQ(report_.hashed, 0);
}

TEST_F(CatalogueTest, OnlyWhatChangedIsReadAgain) {
  scan();
  write_file(memory_, name(1), photo(7));
  write_file(memory_, name(2), photo(80));  // touched: the same bytes
  EXPECT_THAT(scan(), ElementsAre("changed d/1.jpg"));
  EXPECT_EQ(report_.hashed, 2);
  EXPECT_EQ(entry("d/1.jpg").digest, sha256(photo(7)));
  EXPECT_THAT(scan(), IsEmpty());
  EXPECT_EQ(report_.hashed, 0);
}

TEST_F(CatalogueTest, ARenamedPhotoMovesWithWhatIsKnownOfIt) {
  scan();
  catalogue_->quarantine(sha256(photo(40)), "bad Huffman code").or_throw();
  memory_.make_directories("r/e").or_throw();
  memory_.rename(name(1), "r/e/new.jpg").or_throw();
  EXPECT_THAT(scan(), ElementsAre("moved d/1.jpg -> e/new.jpg"));
  EXPECT_EQ(entry("e/new.jpg").state, PhotoState::kQuarantined);
  EXPECT_EQ(entry("e/new.jpg").reason, "bad Huffman code");
  EXPECT_FALSE(catalogue_->find("d/1.jpg").or_throw().has_value());
  EXPECT_THAT(scan(), IsEmpty());
}

TEST_F(CatalogueTest, ARenamedDirectoryIsNotReadAgain) {
  scan();
  memory_.rename("r/d", "r/elsewhere").or_throw();
  fs_.opened = 0;
  EXPECT_EQ(scan().size(), 5u);
  EXPECT_EQ(report_.moved, 5);
  EXPECT_EQ(fs_.opened, 0);
}

TEST_F(CatalogueTest, ACopyIsAddedNotMoved) {
  scan();
  write_file(memory_, "r/copy.jpg", photo(0));
  EXPECT_THAT(scan(), ElementsAre("added copy.jpg"));
}

TEST_F(CatalogueTest, MissingOnceTwiceAndBackAgain) {
  scan();
  memory_.remove(name(0)).or_throw();
  memory_.remove(name(1)).or_throw();
  EXPECT_THAT(scan(), ElementsAre("missing d/0.jpg", "missing d/1.jpg"));
  EXPECT_EQ(entry("d/0.jpg").state, PhotoState::kMissing);
  write_file(memory_, name(0), photo(0));
  EXPECT_THAT(scan(), ElementsAre("deleted d/1.jpg", "returned d/0.jpg"));
  EXPECT_EQ(entry("d/0.jpg").state, PhotoState::kOk);
  EXPECT_EQ(entry("d/1.jpg").state, PhotoState::kDeleted);
  EXPECT_THAT(scan(), IsEmpty());
  write_file(memory_, name(1), photo(40));
  EXPECT_THAT(scan(), ElementsAre("added d/1.jpg"));
  EXPECT_EQ(catalogue_->counts().or_throw(), (CatalogueCounts{.ok = 5}));
}

TEST_F(CatalogueTest, AForgottenPhotoIsDeletedAtOnce) {
  scan();
  memory_.remove(name(4)).or_throw();
  catalogue_->forget("d/4.jpg").or_throw();
  EXPECT_EQ(entry("d/4.jpg").state, PhotoState::kDeleted);
  EXPECT_THAT(scan(), IsEmpty());
  EXPECT_EQ(catalogue_->forget("d/9.jpg").code(), Code::kNotFound);
}

TEST_F(CatalogueTest, PhotosOfEveryFormatAreTakenInAndDamagedOnesQuarantined) {
  const int64_t before = (scan(), catalogue_->counts().or_throw().ok);
  int64_t good = 0, others = 0;
  for (const testing::GoldenFile& g : testing::golden_files()) {
    const std::string file = testing::from_hex(g.hex);
    const PhotoFormat format = sniff(testing::bytes_of(file));
    if (g.width == 0) continue;
    const std::string name = std::string(g.name) + std::string(extension_for(format));
    write_file(memory_, "r/new/" + name, file);
    write_file(memory_, "r/new/short " + name, file.substr(0, 20));
    ++(can_decode(format) ? good : others);
  }
  scan();
  EXPECT_EQ(catalogue_->counts().or_throw(),
            (CatalogueCounts{.ok = before + good, .quarantined = good, .skipped = 2 * others}));
}

TEST_F(CatalogueTest, BadPhotosAreQuarantinedAndTheScanGoesOn) {
  const std::string png = testing::png_of(testing::test_pattern(4, 4));
  write_file(memory_, "r/bad/empty.jpg", "");
  write_file(memory_, "r/bad/huge.jpg", testing::jpeg_declaring(photo(1), 60000, 60000));
  write_file(memory_, "r/bad/png.jpg", png);
  write_file(memory_, "r/bad/text.png", "<html>");
  write_file(memory_, "r/bad/unreadable.jpg", photo(2));
  write_file(memory_, "r/skip/a.bmp", std::string("BM\x10\0\0\0\0\0\0\0xxxxxx", 16));
  write_file(memory_, "r/good.png", png);
  fs_.broken = {"r/bad/unreadable.jpg"};
  scan();
  EXPECT_EQ(catalogue_->counts().or_throw(),
            (CatalogueCounts{.ok = 6, .quarantined = 5, .skipped = 1}));
  EXPECT_EQ(entry("bad/png.jpg").reason, "named .jpg but holds PNG");
  EXPECT_THAT(entry("bad/huge.jpg").reason, HasSubstr("60000 x 60000"));
  EXPECT_THAT(entry("bad/text.png").reason, HasSubstr("not a photo"));
  EXPECT_THAT(entry("skip/a.bmp").reason, HasSubstr("BMP"));
  EXPECT_THAT(entry("bad/unreadable.jpg").reason, HasSubstr("permission denied"));
  ASSERT_EQ(report_.problems.size(), 1u);
  EXPECT_EQ(report_.problems[0].path, "bad/unreadable.jpg");
  fs_.broken.clear();
  EXPECT_THAT(scan(), ElementsAre("changed bad/unreadable.jpg"));
  EXPECT_EQ(report_.hashed, 1);
  EXPECT_EQ(entry("bad/unreadable.jpg").state, PhotoState::kOk);
}

TEST_F(CatalogueTest, WhatADecoderRefusedStaysQuarantinedUntilItsBytesChange) {
  scan();
  catalogue_->quarantine(sha256(photo(80)), "cut short").or_throw();
  EXPECT_EQ(entry("d/2.jpg").reason, "cut short");
  write_file(memory_, "r/copy.jpg", photo(80));
  scan();
  EXPECT_EQ(entry("copy.jpg").state, PhotoState::kQuarantined);
  write_file(memory_, name(2), photo(81));
  scan();
  EXPECT_EQ(entry("d/2.jpg").state, PhotoState::kOk);
}

TEST_F(CatalogueTest, PhotosBelowAnUnreadableDirectoryAreNotMissing) {
  scan();
  fs_.broken = {"r/d"};
  EXPECT_THAT(scan(), IsEmpty());
  EXPECT_EQ(report_.problems.size(), 1u);
  EXPECT_THAT(scan(), IsEmpty());
  EXPECT_EQ(catalogue_->counts().or_throw(), (CatalogueCounts{.ok = 5}));
  fs_.broken = {"r"};
  DirectorySource source(fs_, "r");
  EXPECT_EQ(catalogue_->scan(source, pool_).status().code(), Code::kIo);
  EXPECT_EQ(catalogue_->counts().or_throw(), (CatalogueCounts{.ok = 5}));
}

// Fails in the middle, as a scan that is killed.
class BreakingSource final : public PhotoSource {
 public:
  BreakingSource(PhotoSource& source, int pages) : source_(source), pages_(pages) {}
  Result<PhotoPage> list(const std::string& cursor, size_t limit) override {
    if (pages_-- == 0) return Status(Code::kIo, "gone");
    return source_.list(cursor, limit);
  }
  Result<std::string> open(const std::string& path) override { return source_.open(path); }

 private:
  PhotoSource& source_;
  int pages_;
};

TEST_F(CatalogueTest, AnUnfinishedScanIsContinuedByTheNext) {
  scan();
  memory_.rename(name(0), "r/a.jpg").or_throw();
  write_file(memory_, "r/b.jpg", photo(3));
  write_file(memory_, "r/c.jpg", photo(4));
  for (int pages = 0; pages < 4; ++pages) {
    DirectorySource source(fs_, "r");
    BreakingSource breaking(source, pages);
    EXPECT_FALSE(
        catalogue_->scan(breaking, pool_, {.page = 2, .on_change = {}, .on_page = {}}).ok());
    catalogue_.reset();
    catalogue_ = open().or_throw();
  }
  memory_.remove("r/c.jpg").or_throw();
  EXPECT_THAT(scan(), ElementsAre("added b.jpg", "moved d/0.jpg -> a.jpg"));
  EXPECT_EQ(catalogue_->counts().or_throw(), (CatalogueCounts{.ok = 6}));
  EXPECT_FALSE(catalogue_->find("c.jpg").or_throw().has_value());
}

TEST_F(CatalogueTest, ThreadsAndPageSizesGiveTheSameCatalogue) {
  for (int i = 5; i < 60; ++i) write_file(memory_, name(i), photo(i));
  ThreadPool four(4);
  DirectorySource source(memory_, "r");
  const auto other = Catalogue::open(real_fs(), directory_.at("other")).or_throw();
  ASSERT_TRUE(other->scan(source, four, {.page = 7, .on_change = {}, .on_page = {}}).ok());
  scan(1000);
  const std::vector<CatalogueEntry> a = catalogue_->entries_after("", 100).or_throw();
  const std::vector<CatalogueEntry> b = other->entries_after("", 100).or_throw();
  ASSERT_EQ(a.size(), 60u);
  ASSERT_EQ(b.size(), 60u);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].ref, b[i].ref);
    EXPECT_EQ(a[i].digest, b[i].digest);
  }
}

TEST_F(CatalogueTest, EntriesComeInPagesInByteOrder) {
  scan();
  std::vector<std::string> paths;
  for (std::string at;;) {
    const std::vector<CatalogueEntry> page = catalogue_->entries_after(at, 2).or_throw();
    if (page.empty()) break;
    for (const CatalogueEntry& e : page) paths.push_back(e.ref.path);
    at = paths.back();
  }
  EXPECT_THAT(paths, ElementsAre("d/0.jpg", "d/1.jpg", "d/2.jpg", "d/3.jpg", "d/4.jpg"));
}

TEST_F(CatalogueTest, NamesNeedNotBeUtf8) {
  write_file(memory_, "r/\xff\xfe' \n.jpg", photo(9));
  EXPECT_EQ(scan().size(), 6u);
  EXPECT_EQ(entry("\xff\xfe' \n.jpg").state, PhotoState::kOk);
}

TEST_F(CatalogueTest, ADamagedFileIsCorrupt) {
  const std::string other = directory_.at("damaged");
  std::filesystem::create_directories(other);
  std::ofstream(other + "/catalogue.sqlite") << std::string(5000, 'x');
  EXPECT_EQ(Catalogue::open(real_fs(), other).status().code(), Code::kCorrupt);
}

// As in a scan of all, of these places alone.
class CatalogueOfPlaces : public CatalogueTest {
 protected:
  std::vector<std::string> look(const std::vector<std::string>& places, size_t page = 2) {
    PlacesSource source(fs_, "r", places);
    std::vector<std::string> changes;
    news_.clear();
    report_ = catalogue_
                  ->scan(source, pool_,
                         {.page = page,
                          .on_change =
                              [&](const PhotoChange& c) {
                                changes.push_back(text_of(c));
                                if (c.new_bytes) news_.push_back(c.path);
                              },
                          .places = places})
                  .or_throw();
    std::sort(changes.begin(), changes.end());
    return changes;
  }
  void write(const std::string& path, int i) { write_file(memory_, "r/" + path, photo(i)); }
  void remove(const std::string& path) { memory_.remove("r/" + path).or_throw(); }

  std::vector<std::string> news_;
};

TEST_F(CatalogueOfPlaces, SeesWhatIsThereAndNothingElse) {
  scan();
  write("e/1.jpg", 7);
  write("e/sub/2.jpg", 9);
  write("unseen.jpg", 11);
  remove("d/0.jpg");
  remove("d/1.jpg");
  EXPECT_THAT(look({"e", "d/0.jpg", "e/sub/2.jpg", "none.jpg"}),
              ElementsAre("added e/1.jpg", "added e/sub/2.jpg", "missing d/0.jpg"));
  EXPECT_THAT(news_, ElementsAre("e/1.jpg", "e/sub/2.jpg"));
  EXPECT_EQ(report_.hashed, 2);
  EXPECT_THAT(look({"e"}), IsEmpty());
  EXPECT_THAT(scan(), ElementsAre("added unseen.jpg", "deleted d/0.jpg", "missing d/1.jpg"));
}

TEST_F(CatalogueOfPlaces, FollowsWhatIsMovedAtOnceOrWithAPauseInBetween) {
  scan();
  memory_.rename("r/d", "r/e").or_throw();
  EXPECT_THAT(look({"d", "e"}), ElementsAre("moved d/0.jpg -> e/0.jpg", "moved d/1.jpg -> e/1.jpg",
                                            "moved d/2.jpg -> e/2.jpg", "moved d/3.jpg -> e/3.jpg",
                                            "moved d/4.jpg -> e/4.jpg"));
  EXPECT_EQ(report_.hashed, 0);
  remove("e/0.jpg");
  EXPECT_THAT(look({"e/0.jpg"}), ElementsAre("missing e/0.jpg"));
  write("later.jpg", 0);
  EXPECT_THAT(look({"later.jpg"}), ElementsAre("moved e/0.jpg -> later.jpg"));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(CatalogueOfPlaces, CallsOnlyBytesNewThatItHasNeverSeen) {
  scan();
  write("copy.jpg", 40);
  EXPECT_THAT(look({"copy.jpg"}), ElementsAre("added copy.jpg"));
  EXPECT_THAT(news_, IsEmpty());
  write("d/1.jpg", 3);
  EXPECT_THAT(look({"d/1.jpg"}), ElementsAre("changed d/1.jpg"));
  EXPECT_THAT(news_, ElementsAre("d/1.jpg"));
  remove("d/2.jpg");
  look({"d/2.jpg"});
  look({"d/2.jpg"});  // deleted by now
  write("d/2.jpg", 80);
  EXPECT_THAT(look({"d/2.jpg"}), ElementsAre("added d/2.jpg"));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(CatalogueOfPlaces, TellsAgainWhatWasToldToSomebodyWhoFailed) {
  scan();
  write("new.jpg", 7);
  int told = 0;
  const auto failing = [&](bool fails) {
    PlacesSource source(fs_, "r", {"new.jpg"});
    return catalogue_
        ->scan(source, pool_,
               {.on_change = [&](const PhotoChange& c) { told += c.new_bytes; },
                .places = {"new.jpg"},
                .on_end = [&] { return fails ? Status(Code::kNoSpace, "full") : Status(); }})
        .status();
  };
  EXPECT_EQ(failing(true).code(), Code::kNoSpace);
  EXPECT_EQ(failing(true).code(), Code::kNoSpace);
  EXPECT_EQ(failing(false).code(), Code::kOk);
  EXPECT_EQ(told, 3);
  EXPECT_THAT(scan(), IsEmpty());
}

TEST_F(CatalogueOfPlaces, KnowsWhetherAllWasEverLookedAt) {
  EXPECT_FALSE(catalogue_->scanned().or_throw());
  look({"d/1.jpg"});
  catalogue_ = nullptr;
  catalogue_ = open().or_throw();
  scan();
  EXPECT_TRUE(catalogue_->scanned().or_throw());
}

}  // namespace
}  // namespace ndtrain::ndp
