#include "ndp/s3/web_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "framework/core/utc_text.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/http_server.h"
#include "ndp/s3/s3_client.h"
#include "tests/s3/s3_server.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using support::S3Server;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As the Security Token Service answers.
class WebIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = HttpServer::listen("127.0.0.1:0",
                                 {{"POST", "/", Role::kAnyone,
                                   [this](const HttpRequest& request) { return answer(request); }}},
                                 1 << 16)
                  .or_throw();
    support::write_file(fs_, "/token", "header.claims.signature\n");
    variables_ = {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                  {"AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/photos"},
                  {"AWS_ENDPOINT_URL_STS", "http://" + server_->address() + "/"}};
  }

  Environment environment() const {
    return [variables = variables_](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
  }
  std::shared_ptr<S3KeySource> source() { return web_identity_keys(fs_, environment(), clock_); }
  void give_keys(const std::string& access, int64_t seconds) {
    std::string at = utc_text(clock_.unix_seconds() + seconds);
    at = at.substr(0, 10) + "T" + at.substr(11, 8) + "Z";
    give(200,
         "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
         "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>" +
             access + "</AccessKeyId><SecretAccessKey>" + S3Server::kSecret +
             "</SecretAccessKey><SessionToken>session</SessionToken><Expiration>" + at +
             "</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
             "</AssumeRoleWithWebIdentityResponse>");
  }
  void refuse(int status, const std::string& code) {
    give(status, "<ErrorResponse><Error><Code>" + code +
                     "</Code><Message>as told</Message></Error></ErrorResponse>");
  }
  void give(int status, const std::string& body) {
    const std::lock_guard guard(mutex_);
    status_ = status;
    body_ = body;
  }
  std::vector<std::string> forms() {
    const std::lock_guard guard(mutex_);
    return forms_;
  }

  MemoryFs fs_;
  ManualClock clock_;
  std::map<std::string, std::string> variables_;

 private:
  HttpResponse answer(const HttpRequest& request) {
    const std::lock_guard guard(mutex_);
    forms_.emplace_back(request.body);
    return {.status = status_, .body = body_, .type = "text/xml"};
  }

  std::mutex mutex_;
  int status_ = 200;
  std::string body_;
  std::vector<std::string> forms_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(WebIdentityTest, WhoShowsTheTokenGetsTheRolesKeys) {
  give_keys("first", 3600);
  const S3Keys keys = source()->keys().or_throw();
  EXPECT_EQ(keys.access, "first");
  EXPECT_EQ(keys.token, "session");
  EXPECT_EQ(keys.expires, clock_.unix_seconds() + 3600);
  variables_["AWS_ROLE_SESSION_NAME"] = "store-1";
  (void)source()->keys().or_throw();
  const std::string form =
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn="
      "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fphotos&RoleSessionName=";
  EXPECT_THAT(forms(),
              ::testing::ElementsAre(form + "ndtrain&WebIdentityToken=header.claims.signature",
                                     form + "store-1&WebIdentityToken=header.claims.signature"));
}

// The file of the token is replaced while it is good.
TEST_F(WebIdentityTest, RequestsAreSignedByKeysThatAreRenewedBeforeTheyEnd) {
  S3Server s3("photos");
  s3.put("a", "x");
  give_keys(S3Server::kKey, 3600);
  const auto keys = source();
  S3Client client({.endpoint = s3.endpoint(), .region = S3Server::kRegion, .keys = keys}, clock_,
                  1);
  EXPECT_EQ(client.get("photos", "a", 0, 1).or_throw().bytes, "x");
  EXPECT_EQ(s3.calls().back().headers.at("x-amz-security-token"), "session");
  support::write_file(fs_, "/token", "another");
  clock_.advance(std::chrono::seconds(3299));
  EXPECT_EQ(client.get("photos", "a", 0, 1).or_throw().bytes, "x");
  EXPECT_EQ(forms().size(), 1U);
  give_keys(S3Server::kKey, 3600);
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(client.get("photos", "a", 0, 1).or_throw().bytes, "x");
  ASSERT_EQ(forms().size(), 2U);
  EXPECT_THAT(forms()[1], HasSubstr("WebIdentityToken=another"));
  refuse(400, "ExpiredTokenException");
  clock_.advance(std::chrono::seconds(3400));  // asked for anew, and the old ones still serve
  EXPECT_EQ(client.get("photos", "a", 0, 1).or_throw().bytes, "x");
  EXPECT_EQ(forms().size(), 3U);
  clock_.advance(std::chrono::seconds(201));
  const Status s = client.get("photos", "a", 0, 1).status();
  EXPECT_EQ(s.code(), Code::kUnavailable);  // later there may be keys: no photo is bad for it
  EXPECT_THAT(s.message(), HasSubstr("ExpiredTokenException"));
}

TEST_F(WebIdentityTest, WhatIsWrongIsSaidWithWhatHelps) {
  const auto why = [&] { return source()->keys().status().message(); };
  refuse(403, "AccessDenied");
  EXPECT_THAT(why(),
              AllOf(HasSubstr("the web identity gets no keys"), HasSubstr("403 AccessDenied"),
                    HasSubstr("as told"), HasSubstr("trust policy")));
  refuse(400, "InvalidIdentityToken");
  EXPECT_THAT(why(), HasSubstr("identity provider"));
  refuse(400, "ExpiredTokenException");
  EXPECT_THAT(why(), HasSubstr("see to it that it is renewed"));
  give(200, "<html/>");
  EXPECT_THAT(why(), HasSubstr("has no keys that last"));
  variables_.erase("AWS_ROLE_ARN");
  EXPECT_THAT(why(), HasSubstr("without AWS_ROLE_ARN"));
  variables_["AWS_ROLE_ARN"] = "arn";
  fs_.remove("/token").or_throw();
  EXPECT_THAT(why(), AllOf(HasSubstr("/token"), HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE")));
  variables_["AWS_ENDPOINT_URL_STS"] = "http://sts.example.org";
  EXPECT_THAT(why(), HasSubstr("AWS_ENDPOINT_URL_STS to an https:// address"));
}

TEST_F(WebIdentityTest, ItComesBehindTheEnvironmentAndBeforeTheFile) {
  give_keys("role", 3600);
  support::write_file(fs_, "/c", "[default]\naws_access_key_id = d\naws_secret_access_key = e\n");
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = "/c";
  const auto found = [&] { return s3_settings(fs_, environment(), nullptr, source()); };
  EXPECT_EQ(found().or_throw().keys->keys().or_throw().access, "role");
  refuse(403, "AccessDenied");  // no others are taken for those that were asked for
  EXPECT_THAT(found().status().message(), HasSubstr("AccessDenied"));
  variables_["AWS_ACCESS_KEY_ID"] = "a";
  variables_["AWS_SECRET_ACCESS_KEY"] = "b";
  EXPECT_EQ(found().or_throw().keys->keys().or_throw().access, "a");
  variables_.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  EXPECT_EQ(source(), nullptr);
}

TEST(WebIdentityAnswer, KeysThatEndWithAFractionOfASecondEndThen) {
  const Result<S3Keys> keys = parse_web_identity_keys(
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
      "<AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey>"
      "<SessionToken>c</SessionToken><Expiration>2026-11-29T01:02:03.456789Z</Expiration>"
      "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
  EXPECT_EQ(keys->expires, 1795914123);
}

}  // namespace
}  // namespace ndtrain::ndp
