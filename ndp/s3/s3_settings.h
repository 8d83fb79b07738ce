// Where an S3 is, and as whom we ask it: as the AWS tools read it from the environment and from
// ~/.aws/credentials.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// s3://bucket/key; a key may hold anything that UTF-8 can, and may be empty.
struct S3Place {
  std::string bucket, key;
};

bool is_s3_url(std::string_view path);
// kUnsupported for what names no bucket.
Result<S3Place> s3_place(std::string_view url);

struct S3Settings {
  std::string endpoint;  // http://HOST:PORT or https://…, without a slash at the end
  std::string region = "us-east-1";
  std::string access_key, secret_key;
  std::string session_token = {};  // of keys that last for a while; else ""
};

// What the environment says of a name; none where it is unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (else Amazon's own for the region), AWS_REGION or
// AWS_DEFAULT_REGION, and keys from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN; without those from the section AWS_PROFILE ("default") of
// AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). Says what to set where something is missing.
Result<S3Settings> s3_settings(Fs& fs, const Environment& environment);

}  // namespace ndtrain::ndp
