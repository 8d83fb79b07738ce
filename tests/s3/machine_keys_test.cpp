#include "ndp/s3/machine_keys.h"

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

using ::testing::HasSubstr;

// As EC2's metadata service and a container's agent answer.
class MachineKeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<HttpServer::Route> routes;
    for (const char* method : {"GET", "PUT"}) {
      routes.push_back({method, ".*", Role::kAnyone,
                        [this](const HttpRequest& request) { return answer(request); }});
    }
    server_ = HttpServer::listen("127.0.0.1:0", std::move(routes), 1 << 16).or_throw();
  }

  std::string url() const { return "http://" + server_->address(); }
  std::shared_ptr<S3KeySource> source(std::map<std::string, std::string> variables) {
    return machine_keys(
        fs_,
        [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        clock_);
  }
  void give(const std::string& path, const std::string& body) {
    const std::lock_guard guard(mutex_);
    answers_[path] = body;
  }
  void give_keys(const std::string& path, const std::string& access, int64_t expires) {
    std::string at = utc_text(expires);  // "2026-11-21 17:40:00 UTC"
    at = at.substr(0, 10) + "T" + at.substr(11, 8) + "Z";
    give(path, R"({"Code": "Success", "AccessKeyId": ")" + access +
                   R"(", "SecretAccessKey": "s", "Token": "t", "Expiration": ")" + at + "\"}");
  }
  int asked() {
    const std::lock_guard guard(mutex_);
    return asked_;
  }

  const std::string kRoles = "/latest/meta-data/iam/security-credentials/";
  MemoryFs fs_;
  ManualClock clock_;

 private:
  HttpResponse answer(const HttpRequest& request) {
    const std::lock_guard guard(mutex_);
    ++asked_;
    const auto found = answers_.find(request.method + " " + request.path);
    const auto any = answers_.find(request.path);
    if (found != answers_.end()) return {.body = found->second};
    if (any != answers_.end()) return {.body = any->second};
    return http_error(404, "nothing there");
  }

  std::mutex mutex_;
  std::map<std::string, std::string> answers_;
  int asked_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(MachineKeysTest, AnInstancesRoleHasKeysForWhoShowsTheTokenItWasGiven) {
  give("PUT /latest/api/token", "token");
  give(kRoles, "photos-role\n");
  give_keys(kRoles + "photos-role", "first", clock_.unix_seconds() + 3600);
  const auto keys = source({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", url() + "/"}});
  const S3Keys given = keys->keys().or_throw();
  EXPECT_EQ(given.access + given.secret + given.token, "firstst");
  EXPECT_EQ(given.expires, clock_.unix_seconds() + 3600);
}

TEST_F(MachineKeysTest, TheyAreAskedForAnewFiveMinutesBeforeTheyExpire) {
  give("PUT /latest/api/token", "token");
  give(kRoles, "role");
  give_keys(kRoles + "role", "first", clock_.unix_seconds() + 3600);
  const auto keys = source({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", url()}});
  EXPECT_EQ(keys->keys().or_throw().access, "first");
  give_keys(kRoles + "role", "second", clock_.unix_seconds() + 7200);
  clock_.advance(std::chrono::seconds(3299));
  EXPECT_EQ(keys->keys().or_throw().access, "first");
  EXPECT_EQ(asked(), 3);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(keys->keys().or_throw().access, "second");
  EXPECT_EQ(asked(), 6);
}

TEST_F(MachineKeysTest, WithoutAnAnswerTheOldOnesServeUntilTheyExpire) {
  int asked = 0;
  bool there = true;
  const int64_t expires = clock_.unix_seconds() + 3600;
  MachineKeys keys(
      [&]() -> Result<S3Keys> {
        ++asked;
        if (!there) return Status(Code::kIo, "nobody answers");
        return S3Keys{.access = "a", .secret = "b", .token = "c", .expires = expires};
      },
      clock_);
  EXPECT_TRUE(keys.keys().ok());
  there = false;
  clock_.advance(std::chrono::seconds(3300));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(keys.keys().ok());
  EXPECT_EQ(asked, 2);  // and again a minute later
  clock_.advance(std::chrono::seconds(299));
  EXPECT_TRUE(keys.keys().ok());
  EXPECT_EQ(asked, 3);
  clock_.advance(std::chrono::seconds(61));
  EXPECT_THAT(keys.keys().status().message(), HasSubstr("nobody answers"));
}

TEST_F(MachineKeysTest, AContainersAgentIsShownTheTokenOfItsFile) {
  give_keys("/v2/keys", "agent", clock_.unix_seconds() + 3600);
  support::write_file(fs_, "/token", "secret\n");
  const auto keys = source({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url() + "/v2/keys"},
                            {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token"},
                            {"AWS_EC2_METADATA_DISABLED", "true"}});
  EXPECT_EQ(keys->keys().or_throw().access, "agent");
  fs_.remove("/token").or_throw();
  EXPECT_THAT(source({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url() + "/v2/keys"},
                      {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token"}})
                  ->keys()
                  .status()
                  .message(),
              HasSubstr("/token"));
}

TEST_F(MachineKeysTest, WhatIsWrongIsSaid) {
  const auto why = [&](const std::map<std::string, std::string>& variables) {
    return source(variables)->keys().status().message();
  };
  const std::map<std::string, std::string> service = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", url()}};
  EXPECT_THAT(why(service), HasSubstr("/latest/api/token is answered 404"));
  give("PUT /latest/api/token", "token");
  EXPECT_THAT(why(service), HasSubstr("no role was given to this instance"));
  give(kRoles, "role");
  give(kRoles + "role", R"({"Code": "AssumeRoleUnauthorizedAccess"})");
  EXPECT_THAT(why(service), HasSubstr("AssumeRoleUnauthorizedAccess"));
  give(kRoles + "role", "<html>");
  EXPECT_THAT(why(service), HasSubstr("the answer has no keys"));
  // Keys would go over the network in the clear.
  for (const char* url : {"http://example.org/keys", "http://127.0.0.1.example.org/keys",
                          "http://127.0.0.1@example.org/keys", "ftp://127.0.0.1/keys"}) {
    EXPECT_THAT(why({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}}), HasSubstr("https://")) << url;
  }
}

TEST_F(MachineKeysTest, WhereThereIsNoServiceNoneIsAsked) {
  EXPECT_EQ(source({{"AWS_EC2_METADATA_DISABLED", "true"}}), nullptr);
}

TEST_F(MachineKeysTest, RequestsAreSignedByTheNewestOnes) {
  support::S3Server s3("photos");
  s3.put("a", "x");
  std::string access = "old";
  const auto keys = std::make_shared<MachineKeys>(
      [&]() -> Result<S3Keys> {
        return S3Keys{.access = access,
                      .secret = support::S3Server::kSecret,
                      .token = "",
                      .expires = clock_.unix_seconds() + 3600};
      },
      clock_);
  S3Client client({.endpoint = s3.endpoint(), .region = support::S3Server::kRegion, .keys = keys},
                  clock_, 1);
  EXPECT_THAT(client.get("photos", "a", 0, 1).status().message(), HasSubstr("InvalidAccessKeyId"));
  access = support::S3Server::kKey;
  clock_.advance(std::chrono::hours(1));
  EXPECT_EQ(client.get("photos", "a", 0, 1).or_throw().bytes, "x");
}

}  // namespace
}  // namespace ndtrain::ndp
