// Where an S3 is, and as whom we ask it: as the AWS tools read it from the environment and from
// ~/.aws/credentials.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

struct S3Keys {
  std::string access, secret;
  std::string token = {};               // of keys that last for a while; else ""
  std::optional<int64_t> expires = {};  // Unix seconds
};

// Who a request is signed as. Thread-safe.
class S3KeySource {
 public:
  virtual ~S3KeySource() = default;
  virtual Result<S3Keys> keys() = 0;
};

std::shared_ptr<S3KeySource> fixed_keys(S3Keys keys);

struct S3Settings {
  std::string endpoint;  // http://HOST:PORT or https://…, without a slash at the end
  std::string region = "us-east-1";
  std::shared_ptr<S3KeySource> keys = {};
};

// What the environment says of a name; none where it is unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// AWS_REGION or AWS_DEFAULT_REGION; "us-east-1" without.
std::string s3_region(const Environment& environment);

// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (else Amazon's own for the region), the
// region, and keys from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN; without those the ones that `identity` has (web_identity.h), unless it is
// null; then from the section AWS_PROFILE ("default") of AWS_SHARED_CREDENTIALS_FILE
// (~/.aws/credentials); without that file those that `machine` has (machine_keys.h), which may be
// null. Both are asked here once, so that who has none hears it now. Says what to set where
// something is missing.
Result<S3Settings> s3_settings(Fs& fs, const Environment& environment,
                               std::shared_ptr<S3KeySource> machine,
                               std::shared_ptr<S3KeySource> identity = nullptr);

}  // namespace ndtrain::ndp
