#include "ndp/s3/s3_settings.h"

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
void read_profile(std::string_view text, std::string_view profile, S3Settings& to) {
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
    if (name == "aws_access_key_id") to.access_key = value;
    if (name == "aws_secret_access_key") to.secret_key = value;
    if (name == "aws_session_token") to.session_token = value;
  }
}

Status read_credentials_file(Fs& fs, const Environment& environment, S3Settings& to) {
  const std::string profile = environment("AWS_PROFILE").value_or("default");
  const std::string file =
      environment("AWS_SHARED_CREDENTIALS_FILE")
          .value_or(join(environment("HOME").value_or("/"), ".aws/credentials"));
  const Result<std::string> text = fs.read(file, kCredentialsFile);
  const std::string remedy =
      "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a credentials file with "
      "AWS_SHARED_CREDENTIALS_FILE and its section with AWS_PROFILE";
  if (!text.ok()) {
    return {text.status().code() == Code::kNotFound ? Code::kUnsupported : text.status().code(),
            "no keys for S3: " + text.status().message() + remedy};
  }
  read_profile(*text, profile, to);
  if (!to.access_key.empty() && !to.secret_key.empty()) return {};
  return {Code::kUnsupported, "no keys for S3: " + file + " has no aws_access_key_id and " +
                                  "aws_secret_access_key in [" + printable(profile, 128) + "]" +
                                  remedy};
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

Result<S3Settings> s3_settings(Fs& fs, const Environment& environment) {
  S3Settings s;
  if (const auto region = environment("AWS_REGION")) {
    s.region = *region;
  } else if (const auto other = environment("AWS_DEFAULT_REGION")) {
    s.region = *other;
  }
  s.endpoint = environment("AWS_ENDPOINT_URL_S3")
                   .value_or(environment("AWS_ENDPOINT_URL")
                                 .value_or("https://s3." + s.region + ".amazonaws.com"));
  while (s.endpoint.ends_with('/')) s.endpoint.pop_back();
  if (!s.endpoint.starts_with("http://") && !s.endpoint.starts_with("https://")) {
    return Status(Code::kUnsupported, "AWS_ENDPOINT_URL " + printable(s.endpoint, 256) +
                                          ": http://HOST:PORT or https://HOST is expected");
  }
  const auto key = environment("AWS_ACCESS_KEY_ID"), secret = environment("AWS_SECRET_ACCESS_KEY");
  if (key && secret) {
    s.access_key = *key;
    s.secret_key = *secret;
    s.session_token = environment("AWS_SESSION_TOKEN").value_or("");
    return s;
  }
  if (key || secret) {
    return Status(Code::kUnsupported,
                  std::string("no keys for S3: ") +
                      (key ? "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"
                           : "AWS_SECRET_ACCESS_KEY is set without AWS_ACCESS_KEY_ID") +
                      "; set both or neither");
  }
  if (Status status = read_credentials_file(fs, environment, s); !status.ok()) return status;
  return s;
}

}  // namespace ndtrain::ndp
