#include "ndp/s3/s3_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr int64_t kCredentialsFile = int64_t{1} << 20;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The keys of one section of a credentials file.
void read_profile(std::string_view text, std::string_view profile, S3Keys& to) {
  bool inside = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[') && line.ends_with(']')) {
      inside = trimmed(line.substr(1, line.size() - 2)) == profile;
      continue;
    }
    const size_t equals = line.find('=');
    if (!inside || equals == std::string_view::npos || line.front() == '#') continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string value(trimmed(line.substr(equals + 1)));
    if (name == "aws_access_key_id") to.access = value;
    if (name == "aws_secret_access_key") to.secret = value;
    if (name == "aws_session_token") to.token = value;
  }
}

class FixedKeys final : public S3KeySource {
 public:
  explicit FixedKeys(S3Keys keys) : keys_(std::move(keys)) {}
  Result<S3Keys> keys() override { return keys_; }

 private:
  const S3Keys keys_;
};

constexpr const char* kRemedy =
    "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a credentials file with "
    "AWS_SHARED_CREDENTIALS_FILE and its section with AWS_PROFILE, or a service account's token "
    "with AWS_WEB_IDENTITY_TOKEN_FILE and its role with AWS_ROLE_ARN";

// Of the environment alone; none where it has none.
Result<std::optional<S3Keys>> keys_of_environment(const Environment& environment) {
  const auto key = environment("AWS_ACCESS_KEY_ID"), secret = environment("AWS_SECRET_ACCESS_KEY");
  if (!key && !secret) return std::optional<S3Keys>();
  if (!key || !secret) {
    const std::string_view set = key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                           not_set = key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID";
    return Status(
        Code::kUnsupported,
        fmt::format("no keys for S3: {} is set without {}; set both or neither", set, not_set));
  }
  return std::optional(S3Keys{
      .access = *key, .secret = *secret, .token = environment("AWS_SESSION_TOKEN").value_or("")});
}

// kNotFound where there is no such file.
Result<S3Keys> keys_of_file(Fs& fs, const Environment& environment) {
  const std::string profile = environment("AWS_PROFILE").value_or("default");
  const std::string file =
      environment("AWS_SHARED_CREDENTIALS_FILE")
          .value_or(join(environment("HOME").value_or("/"), ".aws/credentials"));
  const Result<std::string> text = fs.read(file, kCredentialsFile);
  if (!text.ok()) {
    return Status(text.status().code(), "no keys for S3: " + text.status().message());
  }
  S3Keys keys;
  read_profile(*text, profile, keys);
  if (!keys.access.empty() && !keys.secret.empty()) return keys;
  return Status(Code::kUnsupported, "no keys for S3: " + file + " has no aws_access_key_id and " +
                                        "aws_secret_access_key in [" + printable(profile, 128) +
                                        "]");
}

Result<std::shared_ptr<S3KeySource>> find_keys(Fs& fs, const Environment& environment,
                                               std::shared_ptr<S3KeySource> machine,
                                               std::shared_ptr<S3KeySource> identity) {
  Result<std::optional<S3Keys>> set = keys_of_environment(environment);
  if (!set.ok()) return set.status();
  if (*set) return fixed_keys(std::move(**set));
  if (identity) {
    const Result<S3Keys> given = identity->keys();
    if (given.ok()) return identity;
    return Status(Code::kUnsupported, "no keys for S3: " + given.status().message());
  }
  Result<S3Keys> kept = keys_of_file(fs, environment);
  if (kept.ok()) return fixed_keys(std::move(*kept));
  if (kept.status().code() != Code::kNotFound) {
    return Status(kept.status().code(), kept.status().message() + kRemedy);
  }
  std::string why = kept.status().message();
  if (machine) {
    const Result<S3Keys> given = machine->keys();
    if (given.ok()) return machine;
    why += "; " + given.status().message();
  }
  return Status(Code::kUnsupported, why + kRemedy);
}

}  // namespace

bool is_s3_url(std::string_view path) { return path.starts_with(kScheme); }

Result<S3Place> s3_place(std::string_view url) {
  const std::string_view rest = url.substr(is_s3_url(url) ? kScheme.size() : url.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  S3Place place{.bucket = std::string(rest.substr(0, slash)),
                .key = std::string(rest.substr(std::min(slash + 1, rest.size())))};
  const bool plain =
      place.bucket.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == std::string::npos;
  if (plain && place.bucket.size() >= 3 && place.bucket.size() <= 255) return place;
  return Status(Code::kUnsupported,
                printable(url, 256) +
                    ": s3://BUCKET/PREFIX is expected, where BUCKET is 3 to 255 "
                    "letters, digits, '.', '-' and '_'");
}

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (!value || !*value) return std::nullopt;
    return value;
  };
}

std::shared_ptr<S3KeySource> fixed_keys(S3Keys keys) {
  return std::make_shared<FixedKeys>(std::move(keys));
}

std::string s3_region(const Environment& environment) {
  return environment("AWS_REGION")
      .value_or(environment("AWS_DEFAULT_REGION").value_or("us-east-1"));
}

Result<S3Settings> s3_settings(Fs& fs, const Environment& environment,
                               std::shared_ptr<S3KeySource> machine,
                               std::shared_ptr<S3KeySource> identity) {
  S3Settings s{.endpoint = "", .region = s3_region(environment)};
  s.endpoint = environment("AWS_ENDPOINT_URL_S3")
                   .value_or(environment("AWS_ENDPOINT_URL")
                                 .value_or("https://s3." + s.region + ".amazonaws.com"));
  while (s.endpoint.ends_with('/')) s.endpoint.pop_back();
  if (!s.endpoint.starts_with("http://") && !s.endpoint.starts_with("https://")) {
    return Status(Code::kUnsupported, "AWS_ENDPOINT_URL " + printable(s.endpoint, 256) +
                                          ": http://HOST:PORT or https://HOST is expected");
  }
  Result<std::shared_ptr<S3KeySource>> keys =
      find_keys(fs, environment, std::move(machine), std::move(identity));
  if (!keys.ok()) return keys.status();
  s.keys = std::move(*keys);
  return s;
}

}  // namespace ndtrain::ndp
