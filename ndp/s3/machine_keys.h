// Keys that the machine gives to what runs on it, which are good for some hours. They are asked for
// as the AWS SDKs do: of a container's agent, where AWS_CONTAINER_CREDENTIALS_FULL_URI or
// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI says where (with AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or
// AWS_CONTAINER_AUTHORIZATION_TOKEN), else of the metadata service of Amazon's EC2, version 2, at
// AWS_EC2_METADATA_SERVICE_ENDPOINT or its own address ("Use the Instance Metadata Service",
// "Container credential provider" in the AWS SDKs' reference guide).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {

// When keys end, "2026-11-29T01:02:03Z" or with a fraction of a second: Unix seconds.
std::optional<int64_t> time_of_keys(std::string text);
// Whether nobody on the way can read what is sent: by https, or to this machine.
bool is_private_way(const std::string& url);

// What an agent or the metadata service answers. kCorrupt: it has no keys.
Result<S3Keys> parse_machine_keys(std::string_view json);

// Keys that end: they are asked for when first they are wanted, and from five minutes before they
// expire on once a minute, while the old ones serve. Thread-safe.
class MachineKeys final : public S3KeySource {
 public:
  using Ask = std::function<Result<S3Keys>()>;  // by one thread at a time
  // `failure` begins what is said where there are none.
  MachineKeys(Ask ask, Clock& clock, std::string failure = "the machine gives no keys");

  Result<S3Keys> keys() override;

 private:
  const Ask ask_;
  const std::string failure_;
  Clock& clock_;
  std::mutex mutex_;  // of what follows
  std::optional<S3Keys> last_;
  int64_t next_ = 0;  // Unix seconds: not asked before, while there are keys
};

// Null where AWS_EC2_METADATA_DISABLED is "true" and no agent is named, and in a build without S3.
std::shared_ptr<S3KeySource> machine_keys(Fs& fs, const Environment& environment, Clock& clock);

}  // namespace ndtrain::ndp
