#include "ndp/s3/s3_fs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/thread_pool.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/photos/photo_source.h"
#include "ndp/photos/read_ahead.h"
#include "tests/s3/s3_server.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using support::S3Server;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class S3FsTest : public ::testing::Test {
 protected:
  ScanReport scan(Catalogue& catalogue) {
    DirectorySource source(*fs_, "s3://photos/all");
    ThreadPool pool(4);
    server_.forget_calls();
    return catalogue.scan(source, pool, far()).or_throw();
  }

  static ScanOptions far() {
    ScanOptions options;
    options.far = true;
    return options;
  }

  Result<S3Settings> settings() const {
    return S3Settings{.endpoint = server_.endpoint(),
                      .region = S3Server::kRegion,
                      .keys = fixed_keys({.access = S3Server::kKey, .secret = S3Server::kSecret})};
  }

  S3Server server_{"photos"};
  ManualClock clock_;
  MemoryFs others_;
  std::unique_ptr<Fs> fs_ = with_s3(others_, clock_, [this] { return settings(); });
};

TEST_F(S3FsTest, KeysAreDirectoriesAndFiles) {
  server_.put("all/", "");  // as some tools mark a directory
  server_.put("all/b/c.jpg", "cc");
  server_.put("all/a.jpg", "a");
  EXPECT_THAT(fs_->list("s3://photos/all").or_throw(), ElementsAre("a.jpg", "b"));
  EXPECT_TRUE(fs_->info("s3://photos/all/b").or_throw().is_directory);
  EXPECT_EQ(fs_->info("s3://photos/all/b/c.jpg").or_throw().size, 2);
  EXPECT_EQ(fs_->read("s3://photos/all/b/c.jpg").or_throw(), "cc");
  EXPECT_EQ(fs_->info("s3://photos/none").status().code(), Code::kNotFound);
  EXPECT_EQ(fs_->read("s3://photos/none").status().code(), Code::kNotFound);
  EXPECT_EQ(fs_->info("s3://other/none").status().code(), Code::kUnavailable);
  fs_->remove("s3://photos/all/a.jpg").or_throw();
  EXPECT_FALSE(server_.objects().contains("all/a.jpg"));
}

TEST_F(S3FsTest, AnObjectIsWrittenAtOnceOrNotAtAll) {
  const auto write = [&](const std::string& bytes) {
    const auto file = fs_->open("s3://photos/all/a.png", Fs::Mode::kCreate).or_throw();
    EXPECT_EQ(server_.objects().contains("all/a.png"), bytes == "others");
    Status s = file->append(std::as_bytes(std::span(bytes)));
    if (s.ok()) file->sync();
    EXPECT_EQ(file->append(std::as_bytes(std::span(bytes))).ok(), false);
    return s;
  };
  write("bytes").or_throw();
  EXPECT_EQ(server_.objects().at("all/a.png"), "bytes");
  EXPECT_EQ(server_.calls().back().headers.at("content-type"), "image/png");
  EXPECT_EQ(write("others").code(), Code::kExists);
  EXPECT_EQ(fs_->read("s3://photos/all/a.png").or_throw(), "bytes");
}

// Also where a listing had it.
TEST_F(S3FsTest, WhatIsRemovedIsGone) {
  server_.put("all/a.jpg", "a");
  (void)fs_->list("s3://photos/all").or_throw();
  fs_->remove("s3://photos/all/a.jpg").or_throw();
  EXPECT_FALSE(fs_->exists("s3://photos/all/a.jpg"));
}

TEST_F(S3FsTest, OtherPathsAreTheOthersAndNothingElseIsWrittenToS3) {
  support::write_file(*fs_, "/d/f", "x");
  EXPECT_EQ(others_.read("/d/f").or_throw(), "x");
  EXPECT_EQ(fs_->open("s3://photos/x", Fs::Mode::kAppend).status().code(), Code::kUnsupported);
  EXPECT_EQ(fs_->open("s3://photos/x", Fs::Mode::kCreatePrivate).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(fs_->open("s3://photos", Fs::Mode::kCreate).status().code(), Code::kUnsupported);
  EXPECT_EQ(fs_->make_directories("s3://photos/x").code(), Code::kUnsupported);
  EXPECT_EQ(fs_->rename("/d/f", "s3://photos/x").code(), Code::kUnsupported);
  EXPECT_EQ(fs_->space("s3://photos/x").status().code(), Code::kUnsupported);
  EXPECT_TRUE(server_.calls().empty());
}

TEST_F(S3FsTest, AFileOfManyPartsIsReadWholeAndSeveralAtATime) {
  std::string bytes((40 << 20) + 1, 'x');
  for (size_t i = 0; i < bytes.size(); i += 4096) bytes[i] = static_cast<char>(i >> 12);
  server_.put("large", bytes);
  server_.set_latency(std::chrono::milliseconds(100));
  EXPECT_EQ(fs_->read("s3://photos/large").or_throw(), bytes);
  EXPECT_EQ(server_.count("GET"), 6);
  EXPECT_GE(server_.most_at_once(), 2);
  EXPECT_LE(server_.most_at_once(), 4);
}

TEST_F(S3FsTest, AFileThatIsReplacedWhileItIsReadIsNoMixture) {
  server_.put("large", std::string(40 << 20, 'x'));
  server_.set_fault([n = 0](const support::S3Call& call) mutable {
    if (call.path != "/photos/large" || n++ != 2) return support::S3Fault();
    return support::S3Fault{.kind = support::S3Fault::Kind::kReplaced, .code = "others"};
  });
  const Result<std::string> read = fs_->read("s3://photos/large");
  EXPECT_EQ(read.status().code(), Code::kIo);
  EXPECT_THAT(read.status().message(), HasSubstr("412 PreconditionFailed"));
  EXPECT_EQ(fs_->read("s3://photos/large").or_throw(), "others");
}

TEST_F(S3FsTest, ASecondScanFetchesOnlyWhatChanged) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  for (int i = 0; i < 30; ++i) {
    server_.put("all/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg",
                "photo " + std::to_string(i));
  }
  EXPECT_EQ(scan(*catalogue).added, 30);
  EXPECT_EQ(server_.count("GET", "/photos/all/"), 30);
  EXPECT_EQ(scan(*catalogue).hashed, 0);
  EXPECT_EQ(server_.count("GET", "/photos/all/"), 0);
  EXPECT_EQ(server_.count("HEAD", "/photos/all/"), 0);
  server_.put("all/0/0.jpg", "photo X");  // of the same size and time, with another ETag
  EXPECT_EQ(scan(*catalogue).changed, 1);
  EXPECT_EQ(server_.count("GET", "/photos/all/"), 1);
}

TEST_F(S3FsTest, BusyAndBrokenAnswersLoseAndDoubleNothing) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  for (int i = 0; i < 400; ++i) {
    server_.put("all/" + std::to_string(i) + ".jpg", "photo " + std::to_string(i));
  }
  server_.set_fault([n = 0](const support::S3Call&) mutable {
    ++n;
    if (n % 20 == 0) return support::S3Fault{.kind = support::S3Fault::Kind::kStatus};
    if (n % 33 == 0) return support::S3Fault{.kind = support::S3Fault::Kind::kCutBody};
    return support::S3Fault{};
  });
  const auto fs = with_s3(others_, system_clock(), [this] { return settings(); });
  DirectorySource source(*fs, "s3://photos/all");
  ThreadPool pool(4);
  const ScanReport report = catalogue->scan(source, pool, far()).or_throw();
  EXPECT_EQ(report.added, 400);
  EXPECT_TRUE(report.problems.empty());
  for (const CatalogueEntry& e : catalogue->entries_after("", 1000).or_throw()) {
    EXPECT_EQ(e.digest, sha256("photo " + e.ref.path.substr(0, e.ref.path.size() - 4)));
  }
  EXPECT_GT(server_.count("GET", "/photos/all/"), 400);
}

TEST_F(S3FsTest, NamesThatAreNoPathsAreToldAndTheOthersScanned) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  for (const char* key :
       {"all//x.jpg", "all/a.jpg", "all/a.jpg/b.jpg", "all/日本\n.jpg", "all/ok.jpg"}) {
    server_.put(key, key);
  }
  const ScanReport report = scan(*catalogue);
  EXPECT_EQ(report.seen, 2);
  ASSERT_EQ(report.problems.size(), 2U);
  EXPECT_THAT(report.problems[0].message, HasSubstr("empty part"));
  EXPECT_THAT(report.problems[1].message, HasSubstr("s3://photos/all/a.jpg"));
}

TEST_F(S3FsTest, ABucketThatVanishesLeavesTheCatalogueAsItWas) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  server_.put("all/a.jpg", "a");
  scan(*catalogue);
  const CatalogueCounts before = catalogue->counts().or_throw();
  server_.drop_bucket();
  DirectorySource source(*fs_, "s3://photos/all");
  ThreadPool pool(1);
  EXPECT_THAT(catalogue->scan(source, pool, far()).status().message(), HasSubstr("NoSuchBucket"));
  EXPECT_EQ(catalogue->counts().or_throw(), before);
}

TEST_F(S3FsTest, AScanAsksForSeveralAtATimeAndForEachOnce) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  for (int i = 0; i < 100; ++i) server_.put("all/" + std::to_string(i) + ".jpg", "photo");
  server_.set_latency(std::chrono::milliseconds(20));
  EXPECT_EQ(scan(*catalogue).added, 100);
  EXPECT_EQ(server_.count("GET", "/photos/all/"), 100);
  // Far fewer are asked for at once where each waits for the one before, or a thread of the pool.
  EXPECT_GT(server_.most_at_once(), 8);
  EXPECT_LE(server_.most_at_once(), ReadAheadPace::kMost + 1);
}

// What was read before it vanished is not read again, and nothing is said of what was not.
TEST_F(S3FsTest, AScanGoesOnWhereABucketVanished) {
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  for (int i = 0; i < 100; ++i) {
    server_.put("all/" + std::to_string(i) + ".jpg", "photo " + std::to_string(i));
  }
  int fetched = 0;
  server_.set_fault([&](const support::S3Call& call) {
    fetched += call.path != "/photos/";
    if (fetched <= 40) return support::S3Fault();
    return support::S3Fault{
        .kind = support::S3Fault::Kind::kStatus, .status = 404, .code = "NoSuchBucket"};
  });
  DirectorySource source(*fs_, "s3://photos/all");
  ThreadPool pool(1);
  EXPECT_EQ(catalogue->scan(source, pool, far()).status().code(), Code::kUnavailable);
  const int64_t known = catalogue->counts().or_throw().skipped +
                        catalogue->counts().or_throw().quarantined +
                        catalogue->counts().or_throw().ok;
  EXPECT_GT(known, 0);
  EXPECT_LE(known, 40);
  server_.set_fault({});
  const ScanReport report = scan(*catalogue);
  EXPECT_EQ(report.added, 100);
  EXPECT_EQ(report.hashed, 100 - known);
  EXPECT_TRUE(report.problems.empty());
}

TEST(S3FsSettings, KeysThatAreMissingAreAskedForWhenS3Is) {
  MemoryFs others;
  ManualClock clock;
  const auto fs = with_s3(others, clock, [] {
    return Result<S3Settings>(Status(Code::kUnsupported, "no keys for S3"));
  });
  EXPECT_TRUE(fs->make_directories("/d").ok());
  EXPECT_EQ(fs->info("s3://photos/a").status().message(), "no keys for S3");
}

}  // namespace
}  // namespace ndtrain::ndp
