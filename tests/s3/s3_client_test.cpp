#include "ndp/s3/s3_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "ndp/s3/s3_request.h"
#include "tests/s3/s3_server.h"
#include "tests/s3/sigv4.h"

namespace ndtrain::ndp {
namespace {

using support::S3Call;
using support::S3Fault;
using support::S3Server;
using Kind = S3Fault::Kind;
using ::testing::AllOf;
using ::testing::HasSubstr;

class S3ClientTest : public ::testing::Test {
 protected:
  static S3Settings settings_for(const S3Server& server) {
    return {.endpoint = server.endpoint(),
            .region = S3Server::kRegion,
            .keys = fixed_keys({.access = S3Server::kKey, .secret = S3Server::kSecret})};
  }
  // The first `n` requests go wrong.
  void go_wrong(int n, const S3Fault& fault) {
    server_.set_fault([n, fault](const S3Call&) mutable { return n-- > 0 ? fault : S3Fault(); });
  }
  double waited() const { return std::chrono::duration<double>(clock_.monotonic()).count(); }

  S3Server server_{"photos"};
  ManualClock clock_;
  S3Client client_{settings_for(server_), clock_, 1};
};

// "get-vanilla" of Amazon's test suite for Signature Version 4.
TEST(SigV4, TheTestsOwnSignatureIsAmazons) {
  EXPECT_EQ(support::sigv4(
                {.method = "GET",
                 .path = "/",
                 .query = "",
                 .headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}},
                 .payload_hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991"
                                 "b7852b855",
                 .time = "20150830T123600Z",
                 .region = "us-east-1",
                 .service = "service"},
                S3Server::kSecret),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
}

TEST_F(S3ClientTest, WhatIsPutIsListedReadAndRemoved) {
  client_.add("photos", "a/b.jpg", "0123456789", "image/jpeg").or_throw();
  EXPECT_EQ(server_.objects().at("a/b.jpg"), "0123456789");
  const S3Page page = client_.list("photos", "a/", "").or_throw();
  ASSERT_EQ(page.objects.size(), 1U);
  const S3Object head = client_.head("photos", "a/b.jpg").or_throw();
  EXPECT_EQ(head.size, 10);
  EXPECT_EQ(page.objects[0].size, 10);
  EXPECT_EQ(page.objects[0].etag, head.etag);
  EXPECT_EQ(page.objects[0].mtime_ns, head.mtime_ns);
  EXPECT_EQ(head.mtime_ns, int64_t{1795914123} * 1'000'000'000);
  const S3Bytes part = client_.get("photos", "a/b.jpg", 3, 4).or_throw();
  EXPECT_EQ(part.bytes, "3456");
  EXPECT_EQ(part.object.size, 10);
  client_.remove("photos", "a/b.jpg").or_throw();
  client_.remove("photos", "a/b.jpg").or_throw();
  EXPECT_EQ(client_.get("photos", "a/b.jpg", 0, 4).status().code(), Code::kNotFound);
  EXPECT_EQ(client_.head("photos", "a/b.jpg").status().code(), Code::kNotFound);
}

TEST_F(S3ClientTest, OddNamesAndEmptyObjectsComeBackAsTheyAre) {
  const std::vector<std::string> odd = {"Ä ö+%25.jpg",   "a//b.jpg",     "line\nbreak.jpg",
                                        "...jpg/a..jpg", "q?x=1&y#.jpg", "日本/写真.jpg",
                                        "tab\t'\"<>.jpg"};
  for (const std::string& key : odd) client_.add("photos", key, key, "image/jpeg").or_throw();
  client_.add("photos", "empty", "", "image/jpeg").or_throw();
  for (const std::string& key : odd) {
    EXPECT_EQ(server_.objects().count(key), 1U) << key;
    EXPECT_EQ(client_.get("photos", key, 0, 100).or_throw().bytes, key);
  }
  EXPECT_EQ(client_.get("photos", "empty", 0, 100).or_throw().bytes, "");
  const S3Page page = client_.list("photos", "", "").or_throw();
  std::vector<std::string> keys = page.prefixes;
  for (const S3Object& o : page.objects) keys.push_back(o.key);
  EXPECT_THAT(keys, ::testing::UnorderedElementsAre(odd[0], "a/", odd[2], "...jpg/", odd[4],
                                                    "日本/", odd[6], "empty"));
}

// Later versions of libcurl sign no path with such parts, and would ask for another object.
TEST_F(S3ClientTest, NamesWithPartsOfDotsComeBackAsTheyAreOrAreRefused) {
  for (const char* key : {"../up.jpg", "a/./b.jpg", "a/..", "."}) {
    server_.put(key, key);
    const Result<S3Bytes> got = client_.get("photos", key, 0, 100);
    if (got.ok()) {
      EXPECT_EQ(got->bytes, key);
    } else {
      EXPECT_EQ(got.status().code(), Code::kUnsupported);
      EXPECT_THAT(got.status().message(), HasSubstr("signs no name with . or .. as a part"));
    }
  }
}

TEST_F(S3ClientTest, ALongListingGoesOn) {
  for (int i = 0; i < 1001; ++i) server_.put("d/" + std::to_string(i), "x");
  const S3Page first = client_.list("photos", "d/", "").or_throw();
  EXPECT_EQ(first.objects.size(), 1000U);
  ASSERT_NE(first.next, "");
  const S3Page second = client_.list("photos", "d/", first.next).or_throw();
  EXPECT_EQ(second.objects.size(), 1U);
  EXPECT_EQ(second.next, "");
}

TEST_F(S3ClientTest, BusyServersAreAskedAgainNotBeforeTheySay) {
  server_.put("a", "bytes");
  go_wrong(2, {.kind = Kind::kStatus, .status = 503, .code = "SlowDown", .retry_after = "7"});
  EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "bytes");
  EXPECT_GE(waited(), 14);
  EXPECT_LT(waited(), 14.4);  // and at most 0.1 and 0.2 s of its own
  go_wrong(1, {.kind = Kind::kStatus, .status = 429, .code = "TooManyRequests"});
  EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "bytes");
}

TEST_F(S3ClientTest, TheyMayNameATimeToWaitFor) {
  server_.put("a", "bytes");
  const std::string date = "\r\nDate: Sun, 29 Nov 2026 01:02:03 GMT";
  for (const char* until : {"Sun, 29 Nov 2026 01:02:13 GMT", "Sunday, 29-Nov-26 01:02:13 GMT",
                            "Sun Nov 29 01:02:13 2026"}) {
    const double before = waited();
    go_wrong(1, {.kind = Kind::kStatus, .retry_after = until + date});
    EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "bytes");
    EXPECT_GE(waited() - before, 10) << until;
    EXPECT_LT(waited() - before, 10.1) << until;
  }
  const double before = waited();
  for (const std::string& past_or_none :
       {"Sun, 29 Nov 2026 01:02:02 GMT" + date, std::string("soon"), std::string("-5")}) {
    go_wrong(1, {.kind = Kind::kStatus, .retry_after = past_or_none});
    EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "bytes");
  }
  EXPECT_LT(waited() - before, 0.3);
  go_wrong(1, {.kind = Kind::kStatus, .retry_after = "Sun, 06 Nov 2044 08:49:37 GMT"});
  EXPECT_EQ(client_.get("photos", "a", 0, 10).or_throw().bytes, "bytes");
  EXPECT_LT(waited() - before, 301);
}

TEST_F(S3ClientTest, ABrokenObjectIsAskedForOnceMoreAndThenOnce) {
  server_.put("a", "bytes");
  bool broken = true;
  server_.set_fault([&](const S3Call& call) {
    return broken && call.path == "/photos/a"
               ? S3Fault{.kind = Kind::kStatus, .status = 500, .code = "InternalError"}
               : S3Fault();
  });
  const auto asked = [&](Code expected) {
    server_.forget_calls();
    EXPECT_EQ(client_.get("photos", "a", 0, 10).status().code(), expected);
    return server_.count("GET", "/photos/a");
  };
  EXPECT_EQ(asked(Code::kIo), kS3Attempts + 1);
  EXPECT_EQ(asked(Code::kIo), 1);
  broken = false;
  EXPECT_EQ(asked(Code::kOk), 1);
  broken = true;
  EXPECT_EQ(asked(Code::kIo), kS3Attempts + 1);
}

TEST_F(S3ClientTest, ItGivesUpAfterSomeAttempts) {
  go_wrong(1000, {.kind = Kind::kStatus, .status = 500, .code = "InternalError"});
  const Status s = client_.get("photos", "a", 0, 10).status();
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_THAT(s.message(), AllOf(HasSubstr("s3://photos/a"), HasSubstr("500 InternalError"),
                                 HasSubstr("8 times")));
  EXPECT_EQ(server_.calls().size(), size_t{kS3Attempts + 1});  // the last asks for its bucket
  EXPECT_GT(waited(), 0);
  EXPECT_LT(waited(), 0.1 * 127);
}

TEST_F(S3ClientTest, WhatIsCutOffIsAskedForAgain) {
  server_.put("a", std::string(100'000, 'x'));
  for (const Kind kind : {Kind::kCutBody, Kind::kCutConnection}) {
    server_.forget_calls();
    go_wrong(2, {.kind = kind});
    EXPECT_EQ(client_.get("photos", "a", 0, 200'000).or_throw().bytes, std::string(100'000, 'x'));
    EXPECT_GE(server_.calls().size(), 3U);
  }
}

TEST_F(S3ClientTest, ErrorsSayWhatHelps) {
  const auto refusal = [&](int status, const char* code) {
    server_.forget_calls();
    server_.set_fault([=](const S3Call& call) {
      return call.path == "/photos/a"
                 ? S3Fault{.kind = Kind::kStatus, .status = status, .code = code}
                 : S3Fault();
    });
    S3Client client(settings_for(server_), clock_, 1);
    const Status s = client.get("photos", "a", 0, 10).status();
    EXPECT_EQ(s.code(), Code::kIo);
    EXPECT_EQ(server_.count("GET", "/photos/a"), 2) << code;  // again, since its bucket is listed
    return s.message();
  };
  EXPECT_THAT(refusal(403, "RequestTimeTooSkewed"),
              AllOf(HasSubstr("s3://photos/a"), HasSubstr("403"), HasSubstr("clock")));
  EXPECT_THAT(refusal(403, "ExpiredToken"), HasSubstr("get new ones"));
  EXPECT_THAT(refusal(403, "QuotaExceeded"), HasSubstr("have the quota raised"));
  EXPECT_THAT(refusal(301, "PermanentRedirect"), HasSubstr("AWS_REGION"));
}

TEST_F(S3ClientTest, ABucketThatIsAwayIsToldFromAnObjectThatCannotBeHad) {
  server_.put("a", "x");
  server_.put("b", "x");
  server_.set_fault([](const S3Call& call) {
    return call.path == "/photos/a" ? S3Fault{.kind = Kind::kStatus, .code = "InternalError"}
                                    : S3Fault();
  });
  EXPECT_EQ(client_.get("photos", "a", 0, 10).status().code(), Code::kIo);
  EXPECT_EQ(client_.get("photos", "b", 0, 10).or_throw().bytes, "x");
  server_.drop_bucket();
  const Status s = client_.get("photos", "b", 0, 10).status();
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_THAT(s.message(), HasSubstr("make the bucket"));
  EXPECT_EQ(client_.list("photos", "", "").status().code(), Code::kUnavailable);
  server_.bring_bucket_back();
  EXPECT_EQ(client_.get("photos", "b", 0, 10).or_throw().bytes, "x");
}

TEST_F(S3ClientTest, WrongKeysAreRefused) {
  server_.put("a", "x");
  S3Settings wrong = settings_for(server_);
  wrong.keys = fixed_keys({.access = S3Server::kKey, .secret = "x"});
  EXPECT_THAT(S3Client(wrong, clock_, 1).get("photos", "a", 0, 1).status().message(),
              AllOf(HasSubstr("SignatureDoesNotMatch"), HasSubstr("AWS_SECRET_ACCESS_KEY")));
  wrong.keys = fixed_keys({.access = "other", .secret = S3Server::kSecret});
  EXPECT_THAT(S3Client(wrong, clock_, 1).get("photos", "a", 0, 1).status().message(),
              HasSubstr("InvalidAccessKeyId"));
}

TEST_F(S3ClientTest, ATokenIsSentAndSigned) {
  server_.put("a", "x");
  S3Settings with = settings_for(server_);
  with.keys =
      fixed_keys({.access = S3Server::kKey, .secret = S3Server::kSecret, .token = "to/ken=="});
  EXPECT_EQ(S3Client(with, clock_, 1).get("photos", "a", 0, 1).or_throw().bytes, "x");
  const S3Call call = server_.calls().back();
  EXPECT_EQ(call.headers.at("x-amz-security-token"), "to/ken==");
  EXPECT_THAT(call.headers.at("authorization"), HasSubstr("x-amz-security-token"));
}

TEST_F(S3ClientTest, ASecondPartIsOfTheSameObjectOrNone) {
  server_.put("a", "0123456789");
  const std::string etag = client_.get("photos", "a", 0, 5).or_throw().object.etag;
  EXPECT_EQ(client_.get("photos", "a", 5, 5, etag).or_throw().bytes, "56789");
  server_.put("a", "abcdefghij");
  EXPECT_EQ(client_.get("photos", "a", 5, 5, etag).status().code(), Code::kIo);
}

// The header is checked by whoever stores the object, the signed hash by whoever takes the request.
TEST_F(S3ClientTest, WhatIsAddedCarriesItsDigest) {
  client_.add("photos", "a", "abc", "image/png").or_throw();
  const auto headers = server_.calls().at(0).headers;
  EXPECT_EQ(headers.at("x-amz-content-sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(headers.at("x-amz-checksum-sha256"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(headers.at("content-type"), "image/png");
  EXPECT_EQ(headers.at("if-none-match"), "*");
  EXPECT_THAT(headers.at("authorization"),
              AllOf(HasSubstr("if-none-match"), HasSubstr("x-amz-checksum-sha256")));
}

TEST_F(S3ClientTest, WhatIsDamagedBusyOrUnansweredOnItsWayIsSentAgain) {
  int n = 0;
  for (const Kind kind :
       {Kind::kDamagedRequest, Kind::kStatus, Kind::kCutConnection, Kind::kLostAnswer}) {
    const std::string key = "photo-" + std::to_string(n++);
    server_.forget_calls();
    go_wrong(2, {.kind = kind});
    client_.add("photos", key, "bytes", "image/jpeg").or_throw();
    EXPECT_EQ(server_.objects().at(key), "bytes");
    EXPECT_GE(server_.count("PUT"), 2) << key;
  }
  go_wrong(1000, {.kind = Kind::kDamagedRequest});
  EXPECT_EQ(client_.add("photos", "never", "bytes", "image/jpeg").code(), Code::kUnavailable);
  EXPECT_FALSE(server_.objects().contains("never"));
}

TEST_F(S3ClientTest, WhoAddsAnObjectIsNotKeptWaiting) {
  go_wrong(1000, {.kind = Kind::kStatus, .status = 503, .code = "SlowDown", .retry_after = "8"});
  EXPECT_EQ(client_.add("photos", "a", "bytes", "image/jpeg").code(), Code::kUnavailable);
  EXPECT_EQ(server_.count("PUT"), 3);
  EXPECT_GE(waited(), 16);
  EXPECT_LT(waited(), 20);
}

TEST_F(S3ClientTest, NoObjectIsReplacedAndTheSameOneIsGoodEnough) {
  for (const bool conditions : {true, false}) {
    if (!conditions) server_.forget_conditions();
    const std::string key = conditions ? "a" : "b";
    client_.add("photos", key, "bytes", "image/jpeg").or_throw();
    client_.add("photos", key, "bytes", "image/jpeg").or_throw();
    for (const std::string& other : {std::string("others"), std::string("longer bytes")}) {
      const Status s = client_.add("photos", key, other, "image/jpeg");
      EXPECT_EQ(s.code(), Code::kExists);
      EXPECT_THAT(s.message(), HasSubstr("s3://photos/" + key));
    }
    EXPECT_EQ(server_.objects().at(key), "bytes");
  }
}

TEST_F(S3ClientTest, WhyNothingCanBeWrittenIsToldApart) {
  const auto why = [&](int status, const char* code) {
    go_wrong(1000, {.kind = Kind::kStatus, .status = status, .code = code});
    const Status s = client_.add("photos", "a", "bytes", "image/jpeg");
    EXPECT_THAT(s.message(), AllOf(HasSubstr("s3://photos/a"), HasSubstr(code)));
    return s.code();
  };
  EXPECT_EQ(why(403, "AccessDenied"), Code::kUnsupported);
  EXPECT_EQ(why(405, "MethodNotAllowed"), Code::kUnsupported);
  EXPECT_EQ(why(403, "QuotaExceeded"), Code::kNoSpace);
  EXPECT_EQ(why(403, "InvalidAccessKeyId"), Code::kUnavailable);
  EXPECT_EQ(why(400, "ExpiredToken"), Code::kUnavailable);
  EXPECT_EQ(why(404, "NoSuchBucket"), Code::kUnavailable);
  EXPECT_EQ(why(503, "SlowDown"), Code::kUnavailable);
  EXPECT_EQ(why(400, "EntityTooLarge"), Code::kIo);
}

TEST(S3Xml, WhatIsNoListingIsRefused) {
  for (const char* bad :
       {"", "<html/>", "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%4</Key><Size>1</Size>"
        "</Contents></ListBucketResult>"}) {
    EXPECT_EQ(parse_s3_page(bad).status().code(), Code::kCorrupt) << bad;
  }
  EXPECT_TRUE(parse_s3_page("<ListBucketResult/>").ok());
  EXPECT_EQ(parse_s3_failure("<html>").code, "");
}

}  // namespace
}  // namespace ndtrain::ndp
