// Objects that are replaced or deleted between a listing and a request for them, in buckets with
// versions and in others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/thread_pool.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/photos/photo_source.h"
#include "ndp/s3/listed_versions.h"
#include "ndp/s3/s3_client.h"
#include "ndp/s3/s3_fs.h"
#include "tests/s3/s3_server.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using support::S3Call;
using support::S3Fault;
using support::S3Server;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class S3Versions : public ::testing::Test {
 protected:
  S3Settings settings() const {
    return {.endpoint = server_.endpoint(),
            .region = S3Server::kRegion,
            .keys = fixed_keys({.access = S3Server::kKey, .secret = S3Server::kSecret})};
  }
  Result<std::string> read() { return fs_->read("s3://photos/all/a.jpg"); }
  void list() { (void)fs_->list("s3://photos/all").or_throw(); }

  S3Server server_{"photos"};
  ManualClock clock_;
  MemoryFs others_;
  S3Client client_{settings(), clock_, 1};
  std::unique_ptr<Fs> fs_ = with_s3(others_, clock_, [this] { return Result(settings()); });
};

TEST_F(S3Versions, AnObjectThatWasReplacedIsReadAsItWasAndOneThatWasDeletedIsNot) {
  server_.keep_versions();
  server_.put("a", "0123456789");
  const S3Object old = client_.head("photos", "a").or_throw();
  EXPECT_EQ(old.version, "v1");
  server_.put("a", "abcdefghij");
  const S3Bytes got = client_.get("photos", "a", 2, 3, old.etag, old.version).or_throw();
  EXPECT_EQ(got.bytes, "234");
  EXPECT_EQ(got.object.version, "v1");
  EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().object.version, "v2");
  client_.remove("photos", "a").or_throw();
  EXPECT_EQ(client_.get("photos", "a", 2, 3, old.etag, old.version).status().code(),
            Code::kNotFound);
  EXPECT_EQ(client_.head("photos", "a").status().code(), Code::kNotFound);
  client_.add("photos", "a", "new", "image/jpeg").or_throw();  // over the mark of the deletion
  EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "new");
}

// The keys of who reads what is there need no leave for versions.
TEST_F(S3Versions, AVersionIsAskedForOnlyWhereItMustBe) {
  server_.keep_versions();
  server_.put("a", "old");
  const S3Object old = client_.head("photos", "a").or_throw();
  server_.set_fault([](const S3Call& call) {
    return call.query.find("versionId") == std::string::npos
               ? S3Fault()
               : S3Fault{.kind = S3Fault::Kind::kStatus, .status = 403, .code = "AccessDenied"};
  });
  EXPECT_EQ(client_.get("photos", "a", 0, 3, old.etag, old.version).or_throw().bytes, "old");
  server_.put("a", "new");
  const Status s = client_.get("photos", "a", 0, 3, old.etag, old.version).status();
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_THAT(s.message(), AllOf(HasSubstr("another object was put there since it was listed"),
                                 HasSubstr("403 AccessDenied"), HasSubstr("s3:GetObjectVersion")));
}

TEST_F(S3Versions, AVersionThatIsKeptNoMoreIsNoObjectThatIsGone) {
  server_.put("a", "old");
  const std::string etag = client_.head("photos", "a").or_throw().etag;
  server_.put("a", "new");
  EXPECT_EQ(client_.get("photos", "a", 0, 3, etag, "v7").status().code(), Code::kIo);
}

TEST_F(S3Versions, AnotherObjectIsNotTakenForTheListedOneByAServerWithoutConditions) {
  server_.ignore_matches();
  server_.put("a", "old");
  const std::string etag = client_.head("photos", "a").or_throw().etag;
  for (const char* other : {"new", ""}) {
    server_.put("a", other);
    const Status s = client_.get("photos", "a", 0, 3, etag).status();
    EXPECT_EQ(s.code(), Code::kIo);
    EXPECT_THAT(s.message(), HasSubstr("another object was put there"));
  }
}

TEST_F(S3Versions, WhatWasListedIsReadOrNothing) {
  server_.put("all/a.jpg", "old");
  list();
  EXPECT_TRUE(fs_->info("s3://photos/all/a.jpg").ok());
  server_.put("all/a.jpg", "new");
  EXPECT_THAT(read().status().message(), HasSubstr("another object was put there"));
  EXPECT_EQ(read().or_throw(), "new");  // which is not what was listed, and who asks again knows
  list();
  EXPECT_EQ(read().or_throw(), "new");
}

TEST_F(S3Versions, WhatWasReadBeforeIsReadAgainAsItWasUntilAListingHasAnother) {
  server_.keep_versions();
  server_.put("all/a.jpg", "old");
  list();
  EXPECT_EQ(read().or_throw(), "old");
  server_.put("all/a.jpg", "new");
  EXPECT_EQ(read().or_throw(), "old");
  list();
  EXPECT_EQ(read().or_throw(), "new");
}

TEST_F(S3Versions, WhatWasLookedAtIsRead) {
  server_.keep_versions();
  server_.put("all/a.jpg", "old");
  EXPECT_EQ(fs_->info("s3://photos/all/a.jpg").or_throw().size, 3);
  server_.put("all/a.jpg", "other");
  EXPECT_EQ(read().or_throw(), "old");
  EXPECT_EQ(fs_->info("s3://photos/all/a.jpg").or_throw().size, 5);
  EXPECT_EQ(read().or_throw(), "other");
}

TEST_F(S3Versions, AFileThatIsReplacedWhileItIsReadIsReadWhole) {
  server_.keep_versions();
  const std::string bytes(40 << 20, 'x');
  server_.put("large", bytes);
  server_.set_fault([n = 0](const S3Call& call) mutable {
    if (call.path != "/photos/large" || n++ != 2) return S3Fault();
    return S3Fault{.kind = S3Fault::Kind::kReplaced, .code = "others"};
  });
  EXPECT_TRUE(fs_->read("s3://photos/large").or_throw() == bytes);
  EXPECT_EQ(fs_->read("s3://photos/large").or_throw(), "others");
}

// By us, who leave the mark of a deletion, or by others.
TEST_F(S3Versions, ADeletedPhotoIsGoneWhateverVersionsOfItAreKept) {
  server_.keep_versions();
  const support::TemporaryDirectory directory;
  const auto catalogue = Catalogue::open(real_fs(), directory.path()).or_throw();
  DirectorySource source(*fs_, "s3://photos/all");
  ThreadPool pool(1);
  ScanOptions options;
  options.far = true;
  const auto scan = [&] { return catalogue->scan(source, pool, options).or_throw(); };
  for (const char* key : {"all/a.jpg", "all/b.jpg", "all/c.jpg"}) server_.put(key, key);
  EXPECT_EQ(scan().added, 3);
  list();
  fs_->remove("s3://photos/all/a.jpg").or_throw();
  EXPECT_EQ(read().status().code(), Code::kNotFound);
  client_.remove("photos", "all/b.jpg").or_throw();  // which the listing above still had
  EXPECT_EQ(fs_->read("s3://photos/all/b.jpg").status().code(), Code::kNotFound);
  EXPECT_THAT(fs_->list("s3://photos/all").or_throw(), ElementsAre("c.jpg"));
  EXPECT_EQ(scan().missing, 2);
  EXPECT_EQ(scan().deleted, 2);
  EXPECT_EQ(catalogue->counts().or_throw().deleted, 2);
}

TEST(ListedVersionsTest, TheNewestAreKept) {
  ListedVersions versions(2);
  for (const char* path : {"a", "b", "c", "d", "e"}) versions.put(path, {.etag = path, .id = path});
  EXPECT_FALSE(versions.find("a"));
  EXPECT_FALSE(versions.find("b"));
  for (const char* path : {"c", "d", "e"}) EXPECT_EQ(versions.find(path)->id, path);
  versions.put("d", {.etag = "d", .id = ""});
  EXPECT_EQ(versions.find("d")->id, "d");
  versions.put("d", {.etag = "other", .id = ""});
  EXPECT_EQ(versions.find("d")->id, "");
  versions.forget("c");
  EXPECT_FALSE(versions.find("c"));
}

}  // namespace
}  // namespace ndtrain::ndp
