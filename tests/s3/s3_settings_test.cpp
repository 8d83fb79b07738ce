#include "ndp/s3/s3_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string text_of(const S3Settings& s) {
  const S3Keys keys = s.keys->keys().or_throw();
  return keys.access + keys.secret + keys.token;
}

TEST(S3Settings, TheEnvironmentComesBeforeTheFile) {
  const S3Settings s = s3_settings(real_fs(),
                                   environment_of({{"AWS_ACCESS_KEY_ID", "a"},
                                                   {"AWS_SECRET_ACCESS_KEY", "b"},
                                                   {"AWS_SESSION_TOKEN", "c"},
                                                   {"AWS_REGION", "eu-central-1"},
                                                   {"AWS_SHARED_CREDENTIALS_FILE", "/nowhere"}}),
                                   nullptr)
                           .or_throw();
  EXPECT_EQ(text_of(s), "abc");
  EXPECT_EQ(s.endpoint, "https://s3.eu-central-1.amazonaws.com");
}

TEST(S3Settings, AProfileOfTheCredentialsFileIsRead) {
  MemoryFs fs;
  support::write_file(fs, "/h/a/.aws/credentials",
                      "# keys\n[default]\naws_access_key_id = d\naws_secret_access_key = e\n"
                      "[ other ]\n  aws_access_key_id=o\r\naws_secret_access_key = p=q \n"
                      "aws_session_token=t\n");
  const S3Settings d = s3_settings(fs, environment_of({{"HOME", "/h/a"}}), nullptr).or_throw();
  EXPECT_EQ(text_of(d), "de");
  const S3Settings o = s3_settings(fs,
                                   environment_of({{"HOME", "/h/a"},
                                                   {"AWS_PROFILE", "other"},
                                                   {"AWS_ENDPOINT_URL", "http://x:7480/"}}),
                                   nullptr)
                           .or_throw();
  EXPECT_EQ(text_of(o), "op=qt");
  EXPECT_EQ(o.endpoint, "http://x:7480");
}

TEST(S3Settings, WhatIsMissingIsNamedWithItsRemedy) {
  MemoryFs fs;
  support::write_file(fs, "/c", "[default]\naws_access_key_id = d\n");
  const auto refusal = [&](const Variables& v) {
    return s3_settings(fs, environment_of(v), nullptr).status().message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal({{"AWS_ACCESS_KEY_ID", "a"}}), HasSubstr("without AWS_SECRET_ACCESS_KEY"));
  EXPECT_THAT(refusal({{"AWS_SECRET_ACCESS_KEY", "a"}}), HasSubstr("without AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(refusal({{"AWS_SHARED_CREDENTIALS_FILE", "/c"}}), HasSubstr("[default]"));
  EXPECT_THAT(refusal({{"AWS_SHARED_CREDENTIALS_FILE", "/none"}}),
              ::testing::AllOf(HasSubstr("/none"), HasSubstr("set AWS_ACCESS_KEY_ID")));
  EXPECT_THAT(refusal({{"AWS_ENDPOINT_URL", "localhost:80"}}), HasSubstr("localhost:80"));
}

TEST(S3Settings, TheMachinesKeysComeLast) {
  MemoryFs fs;
  support::write_file(fs, "/c", "[default]\naws_access_key_id = d\naws_secret_access_key = e\n");
  support::write_file(fs, "/broken", "[default]\n");
  const auto machine = fixed_keys({.access = "m", .secret = "n", .token = "o"});
  const auto with = [&](const Variables& v) { return s3_settings(fs, environment_of(v), machine); };
  EXPECT_EQ(text_of(with({{"AWS_SHARED_CREDENTIALS_FILE", "/none"}}).or_throw()), "mno");
  EXPECT_EQ(text_of(with({{"AWS_SHARED_CREDENTIALS_FILE", "/c"}}).or_throw()), "de");
  EXPECT_FALSE(with({{"AWS_SHARED_CREDENTIALS_FILE", "/broken"}}).ok());
}

TEST(S3Settings, WhyTheMachineGivesNoneIsSaidBesideTheRemedy) {
  struct None final : S3KeySource {
    Result<S3Keys> keys() override { return Status(Code::kIo, "nobody answers"); }
  };
  MemoryFs fs;
  EXPECT_THAT(s3_settings(fs, environment_of({{"HOME", "/h"}}), std::make_shared<None>())
                  .status()
                  .message(),
              ::testing::AllOf(::testing::HasSubstr("/h/.aws/credentials"),
                               ::testing::HasSubstr("nobody answers"),
                               ::testing::HasSubstr("set AWS_ACCESS_KEY_ID")));
}

TEST(S3Settings, AUrlIsABucketAndAKey) {
  EXPECT_TRUE(is_s3_url("s3://b"));
  EXPECT_FALSE(is_s3_url("/s3://b"));
  const S3Place p = s3_place("s3://photos/a/b.jpg").or_throw();
  EXPECT_EQ(p.bucket, "photos");
  EXPECT_EQ(p.key, "a/b.jpg");
  EXPECT_EQ(s3_place("s3://photos").or_throw().key, "");
  for (const char* bad : {"s3://", "s3:///a", "s3://a?b/c", "s3://ab/c"}) {
    EXPECT_EQ(s3_place(bad).status().code(), Code::kUnsupported) << bad;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
