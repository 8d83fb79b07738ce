#include "ndp/rados/rados_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/hash.h"
#include "framework/core/thread_pool.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/photos/photo_source.h"
#include "ndp/rados/hosted_groups.h"
#include "tests/rados/fake_pool.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRoot = "rados://photos/july";

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class RadosFsTest : public ::testing::Test {
 protected:
  std::unique_ptr<RadosFs> fs(RadosScope scope) {
    return with_rados(std::make_unique<MemoryFs>(), clock_, std::move(scope), cluster_.opens());
  }
  void put_many() {
    for (int i = 0; i < 60; ++i) cluster_.put("rose/" + std::to_string(i) + ".jpg", "x");
  }
  std::set<std::string> of_osd(int osd) const {
    std::set<std::string> names;
    for (const auto& [name, object] : cluster_.objects) {
      if (cluster_.primary_of(name) == osd) names.insert(name);
    }
    return names;
  }
  static std::set<std::string> photos(Fs& fs) {
    DirectorySource source(fs, kRoot);
    std::set<std::string> names;
    for (const PhotoRef& p : source.list("", 1000).or_throw().photos) names.insert(p.path);
    return names;
  }

  ndtrain::testing::FakeCluster cluster_;
  ManualClock clock_;
};

TEST_F(RadosFsTest, NamesAreDirectoriesAndFiles) {
  const auto all = fs({});
  cluster_.put("b/c.jpg", "cc");
  cluster_.put("a.jpg", "a");
  EXPECT_THAT(all->list(kRoot).or_throw(), ElementsAre("a.jpg", "b"));
  EXPECT_TRUE(all->info("rados://photos/july/b").or_throw().is_directory);
  EXPECT_EQ(all->info("rados://photos/july/b/c.jpg").or_throw().size, 2);
  EXPECT_THAT(all->list("rados://photos/july/b").or_throw(), ElementsAre("c.jpg"));
  EXPECT_EQ(all->read("rados://photos/july/b/c.jpg").or_throw(), "cc");
  EXPECT_TRUE(all->info("rados://photos/july/b").or_throw().is_directory) << "asked for again";
  EXPECT_EQ(all->info("rados://photos/july/none").status().code(), Code::kNotFound);
  EXPECT_EQ(all->read("rados://photos/july/none").status().code(), Code::kNotFound);
  EXPECT_EQ(all->info("rados://other/july").status().code(), Code::kNotFound);
  EXPECT_TRUE(all->info(kRoot).or_throw().is_directory);
}

TEST_F(RadosFsTest, APrefixIsADirectoryOfItsOwn) {
  const auto all = fs({});
  cluster_.put("2024/july/a.jpg", "a");
  cluster_.put("2024/june/b.jpg", "b");
  cluster_.put("2024/july.jpg", "c");
  EXPECT_TRUE(all->info("rados://photos/july/2024/july").or_throw().is_directory);
  EXPECT_THAT(all->list("rados://photos/july/2024/july/").or_throw(), ElementsAre("a.jpg"));
  cluster_.put("2024/july/d.jpg", "d");
  EXPECT_THAT(all->list("rados://photos/july/2024/july").or_throw(), ElementsAre("a.jpg", "d.jpg"));
}

TEST_F(RadosFsTest, AnObjectThatIsMissingIsAskedForAloneOnceAllWereListed) {
  const auto all = fs({});
  cluster_.put("b/c.jpg", "cc");
  EXPECT_EQ(all->info("rados://photos/july/none.jpg").status().code(), Code::kNotFound);
  EXPECT_EQ(cluster_.listed.size(), ndtrain::testing::FakeCluster::kGroups);
  EXPECT_EQ(all->info("rados://photos/july/b/none.jpg").status().code(), Code::kNotFound);
  EXPECT_EQ(all->info("rados://photos/july/none").status().code(), Code::kNotFound);
  EXPECT_TRUE(all->info("rados://photos/july/b").or_throw().is_directory);
  cluster_.put("none.jpg", "n");
  EXPECT_EQ(all->info("rados://photos/july/none.jpg").or_throw().size, 1);
  EXPECT_EQ(cluster_.listed.size(), ndtrain::testing::FakeCluster::kGroups) << "once";
  cluster_.put("d/e.jpg", "e");
  (void)all->list(kRoot).or_throw();
  (void)all->info("rados://photos/july/d").or_throw();
  EXPECT_TRUE(all->info("rados://photos/july/d/").or_throw().is_directory) << "asked for again";
  EXPECT_EQ(cluster_.listed.size(), 2 * ndtrain::testing::FakeCluster::kGroups);
}

TEST_F(RadosFsTest, TheDefaultNamespaceIsADirectoryLikeOthers) {
  cluster_.nspace = "";
  cluster_.put("rose/1.jpg", "one");
  cluster_.put("2.jpg", "2");
  cluster_.put("/3.jpg", "3");
  const auto all = fs({});
  const std::string root = "rados://photos//";
  EXPECT_TRUE(all->info(root).or_throw().is_directory);
  EXPECT_EQ(all->info(kRoot).status().code(), Code::kNotFound);
  EXPECT_THAT(all->list(root).or_throw(), ElementsAre("/", "2.jpg", "rose"));
  EXPECT_THAT(all->list("rados://photos//rose").or_throw(), ElementsAre("1.jpg"));
  EXPECT_EQ(all->read("rados://photos//rose/1.jpg").or_throw(), "one");
  DirectorySource source(*all, root);
  const PhotoPage page = source.list("", 100).or_throw();
  ASSERT_EQ(page.photos.size(), 2U);
  EXPECT_EQ(page.photos[0].path, "2.jpg");
  EXPECT_EQ(page.photos[1].path, "rose/1.jpg");
  EXPECT_EQ(page.problems.size(), 1U);
  const int osd = cluster_.primary_of("2.jpg");
  const auto here = fs({.all = false, .osds = {osd}});
  (void)here->list(root).or_throw();
  (void)here->read("rados://photos//2.jpg").or_throw();
  ASSERT_EQ(here->reads().size(), 1U);
  EXPECT_TRUE(here->reads()[0].here);
}

TEST_F(RadosFsTest, NamesThatAreNoPathsAreNamedAsProblems) {
  const auto all = fs({});
  for (const char* const name : {"a//b.jpg", "c.jpg", "c.jpg/d.jpg", "e.jpg"}) {
    cluster_.put(name, "x");
  }
  DirectorySource source(*all, kRoot);
  const PhotoPage page = source.list("", 100).or_throw();
  ASSERT_EQ(page.photos.size(), 1U);
  EXPECT_EQ(page.photos[0].path, "e.jpg");
  ASSERT_EQ(page.problems.size(), 2U);
  EXPECT_THAT(page.problems[0].message + page.problems[1].message, HasSubstr("rename the objects"));
}

TEST_F(RadosFsTest, ALargeObjectIsReadInPartsOfOneVersion) {
  const auto all = fs({});
  std::string large(size_t{20} << 20, 'x');
  large.back() = 'y';
  cluster_.put("large.jpg", large);
  EXPECT_EQ(all->read("rados://photos/july/large.jpg").or_throw(), large);
  const auto file = all->open("rados://photos/july/large.jpg", Fs::Mode::kRead).or_throw();
  cluster_.put("large.jpg", large);
  std::vector<std::byte> end(10);
  EXPECT_EQ(file->read_at(static_cast<int64_t>(large.size()) - 10, end).status().code(), Code::kIo);
}

// Which make a new version of it, with the same bytes.
TEST_F(RadosFsTest, AttributesThatAreWrittenMeanwhileDisturbNoReader) {
  const auto all = fs({});
  std::string large(size_t{20} << 20, 'x');
  large.back() = 'y';
  cluster_.put("large.jpg", large);
  const std::string path = "rados://photos/july/large.jpg";
  const FileInfo before = all->info(path).or_throw();
  const auto file = all->open(path, Fs::Mode::kRead).or_throw();
  const auto set = [&](const char* value) {
    return all->set_attributes(std::vector<FileAttributes>{{path, before, {{"a", value}}}})[0];
  };
  set("1").or_throw();
  const uint64_t version = cluster_.objects.at("large.jpg").version;
  set("1").or_throw();
  EXPECT_EQ(cluster_.objects.at("large.jpg").version, version) << "it is there";
  std::vector<std::byte> end(10);
  EXPECT_EQ(file->read_at(static_cast<int64_t>(large.size()) - 10, end).or_throw(), 10U);
  EXPECT_EQ(end.back(), std::byte{'y'});
  set("2").or_throw();
  EXPECT_EQ(file->read_at(static_cast<int64_t>(large.size()) - 10, end).or_throw(), 10U);
  const FileInfo after = all->info(path).or_throw();
  EXPECT_EQ(after.inode, before.inode);
  EXPECT_EQ(after.mtime_ns, before.mtime_ns);
  cluster_.put("large.jpg", large);
  ++cluster_.objects.at("large.jpg").seconds;
  EXPECT_EQ(file->read_at(static_cast<int64_t>(large.size()) - 10, end).status().code(), Code::kIo);
  EXPECT_NE(all->info(path).or_throw().inode, before.inode);
  EXPECT_EQ(set("3").code(), Code::kExists);
}

TEST_F(RadosFsTest, ObjectsAreMadeAtOnceAndRemovedAndNothingElseIsWritten) {
  const auto all = fs({});
  cluster_.put("a.jpg", "a");
  const std::string path = "rados://photos/july/a.jpg";
  for (const Status& s :
       {all->open(kRoot, Fs::Mode::kCreate).status(), all->open(path, Fs::Mode::kAppend).status(),
        all->open(path, Fs::Mode::kCreatePrivate).status(), all->remove(kRoot),
        all->rename(path, "/x"), all->rename("/x", path), all->make_directories(path),
        all->space(path).status(), all->lock(path).status()}) {
    EXPECT_EQ(s.code(), Code::kUnsupported) << s.message();
  }
  EXPECT_EQ(cluster_.objects.size(), 1U);
  EXPECT_EQ(all->info("rados://photos/july/b").status().code(), Code::kNotFound);
  const auto file = all->open("rados://photos/july/b/c.jpg", Fs::Mode::kCreate).or_throw();
  EXPECT_EQ(cluster_.objects.size(), 1U) << "not before it has bytes";
  file->append(bytes_of_text("cc")).or_throw();
  file->sync();
  EXPECT_EQ(cluster_.objects.at("b/c.jpg").bytes, "cc");
  EXPECT_EQ(cluster_.objects.at("b/c.jpg").attributes.at("ndtrain.sha256"), to_hex(sha256("cc")));
  EXPECT_EQ(file->append(bytes_of_text("d")).code(), Code::kUnsupported);
  EXPECT_TRUE(all->info("rados://photos/july/b").or_throw().is_directory);
  EXPECT_EQ(all->read("rados://photos/july/b/c.jpg").or_throw(), "cc");
  all->remove("rados://photos/july/b/c.jpg").or_throw();
  EXPECT_FALSE(cluster_.objects.contains("b/c.jpg"));
  EXPECT_EQ(all->remove("rados://photos/july/b/c.jpg").code(), Code::kNotFound);
}

TEST_F(RadosFsTest, AnObjectIsNeverReplacedAndTheSameBytesAreAsGood) {
  const auto all = fs({});
  const auto put = [&](const std::string& text) {
    return all->open("rados://photos/july/a.jpg", Fs::Mode::kCreate)
        .or_throw()
        ->append(bytes_of_text(text));
  };
  cluster_.answers_lost = true;
  EXPECT_EQ(put("a").code(), Code::kUnavailable);
  cluster_.answers_lost = false;
  put("a").or_throw();
  const Status other = put("ab");
  EXPECT_EQ(other.code(), Code::kExists);
  EXPECT_THAT(other.message(), HasSubstr("left as it is"));
  EXPECT_EQ(put("").code(), Code::kExists);
  EXPECT_EQ(cluster_.objects.at("a.jpg").bytes, "a");
  cluster_.objects.clear();
  cluster_.refused = Status(Code::kNoSpace, "No space left on device");
  EXPECT_EQ(put("a").code(), Code::kNoSpace);
  EXPECT_TRUE(cluster_.objects.empty());
}

TEST_F(RadosFsTest, AHostListsWhatItsOsdsArePrimaryOfAndAsksNoOther) {
  put_many();
  for (int osd = 0; osd < 3; ++osd) {
    cluster_.listed.clear();
    const auto here = fs({.all = false, .osds = {osd}});
    EXPECT_EQ(photos(*here), of_osd(osd));
    for (const uint32_t group : cluster_.listed) EXPECT_EQ(cluster_.primary.at(group), osd);
  }
  EXPECT_EQ(photos(*fs({})).size(), 60U);
}

TEST_F(RadosFsTest, TheOsdsOfThisHostAreFoundByItsAddresses) {
  put_many();
  EXPECT_EQ(photos(*fs({.all = false})), of_osd(0)) << "127.0.0.1 in the map";
  cluster_.down = {0};
  const Status s = fs({.all = false})->info(kRoot).status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_THAT(s.message(), HasSubstr("--rados-osds"));
}

TEST_F(RadosFsTest, TheNextPrimarysHostListsWhatAnOsdHadThatEnded) {
  put_many();
  const auto first = fs({.all = false, .osds = {0}}), next = fs({.all = false, .osds = {1}});
  const std::set<std::string> before = photos(*first);
  std::set<std::string> both = photos(*next);
  cluster_.kill(0);
  both.insert(before.begin(), before.end());
  EXPECT_EQ(photos(*next), both);
  EXPECT_EQ(next->gained(kRoot), 1U);
  EXPECT_EQ(photos(*first), before) << "jobs that count on it find it there for a while";
  clock_.advance(HostedGroups::kHandedOver);
  EXPECT_TRUE(photos(*first).empty());
}

TEST_F(RadosFsTest, AMapIsAskedForOnlyWhenItsEpochIsAnother) {
  const auto here = fs({.all = false, .osds = {0}});
  for (int i = 0; i < 3; ++i) (void)here->list(kRoot).or_throw();
  EXPECT_EQ(cluster_.asked["osd dump"], 1);
  cluster_.set_primary(0, 1);
  (void)here->list(kRoot).or_throw();
  EXPECT_EQ(cluster_.asked["osd dump"], 2);
}

TEST_F(RadosFsTest, WhatIsReadIsCountedByPrimary) {
  cluster_.put("a.jpg", "1234");
  const int osd = cluster_.primary_of("a.jpg");
  const auto here = fs({.all = false, .osds = {osd}});
  (void)here->list(kRoot).or_throw();
  (void)here->read("rados://photos/july/a.jpg").or_throw();
  cluster_.set_primary(cluster_.group_of("a.jpg"), (osd + 1) % 3);
  (void)here->list(kRoot).or_throw();
  (void)here->read("rados://photos/july/a.jpg").or_throw();
  int theirs = 0, ours = 0;
  for (const RadosReads& r : here->reads()) {
    EXPECT_EQ(r.bytes, 4U);
    EXPECT_EQ(r.objects, 1U);
    EXPECT_EQ(r.osd, r.here ? osd : (osd + 1) % 3);
    ++(r.here ? ours : theirs);
  }
  EXPECT_EQ(ours, 1);
  EXPECT_EQ(theirs, 1);
}

TEST_F(RadosFsTest, AScanReadsAgainWhatWasWrittenAlone) {
  put_many();
  const support::TemporaryDirectory state;
  auto catalogue = Catalogue::open(real_fs(), state.path()).or_throw();
  const auto all = fs({});
  DirectorySource source(*all, kRoot);
  ThreadPool pool(2);
  ScanOptions far;
  far.far = true;
  EXPECT_EQ(catalogue->scan(source, pool, far).or_throw().hashed, 60);
  EXPECT_EQ(catalogue->scan(source, pool, far).or_throw().hashed, 0);
  cluster_.put("rose/7.jpg", "y");  // of the same size, in the same second
  const ScanReport report = catalogue->scan(source, pool, far).or_throw();
  EXPECT_EQ(report.hashed, 1);
  EXPECT_EQ(report.changed, 1);
  cluster_.away = Status(Code::kUnavailable, "timed out");
  EXPECT_EQ(catalogue->scan(source, pool, far).status().code(), Code::kUnavailable);
  cluster_.away.reset();
  EXPECT_EQ(catalogue->scan(source, pool, far).or_throw().missing, 0) << "none was taken for gone";
}

}  // namespace
}  // namespace ndtrain::ndp
