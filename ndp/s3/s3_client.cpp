#include "ndp/s3/s3_client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "framework/core/base64.h"
#include "framework/core/hash.h"
#include "framework/core/rng.h"
#include "framework/core/text.h"
#include "ndp/s3/http_date.h"
#include "ndp/s3/s3_request.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kFirstWait{100}, kLongestWait{20'000};
constexpr std::chrono::seconds kLongestToldWait{300};
constexpr std::chrono::seconds kAddPatience{20};  // somebody waits for the answer
constexpr size_t kListing = size_t{16} << 20;     // bytes of a page, or of an error's XML

constexpr size_t kBrokenObjects = 10'000;  // that are remembered
constexpr int kNothingThere = 416;         // of a range that begins behind the end

constexpr int kNotImplemented = 501, kPreconditionFailed = 412;

// What another attempt may change; also bytes that were damaged on their way.
bool is_busy(int status, const std::string& code) {
  if (status == kNotImplemented) return false;
  constexpr std::string_view kPassing[] = {
      "SlowDown",         "RequestTimeout", "ConditionalRequestConflict",
      "OperationAborted", "BadDigest",      "XAmzContentSHA256Mismatch"};
  return status == 429 || status >= 500 || std::ranges::count(kPassing, code) > 0;
}

// Whether this is said of one object, and not since the server has too much to do.
bool is_of_object(int status) { return status == 403 || status == 500; }

std::string remedy_for(int status, const std::string& code) {
  if (code == "RequestTimeTooSkewed") {
    return "; this machine's clock and the server's differ too much: set it (timedatectl)";
  }
  if (code == "NoSuchBucket") return "; make the bucket, or correct its name";
  if (code == "SignatureDoesNotMatch" || code == "InvalidAccessKeyId") {
    return "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION";
  }
  if (code == "QuotaExceeded") return "; have the quota raised, or delete what is not needed";
  if (code == "ExpiredToken") return "; the keys have expired: get new ones";
  if (status == 301 || status == 307 || code == "AuthorizationHeaderMalformed") {
    return "; the bucket is in another region: set AWS_REGION or AWS_ENDPOINT_URL";
  }
  if (status == kPreconditionFailed) {
    return "; another object was put there since it was listed, the next listing finds that";
  }
  if (status == 403) return "; give these keys leave to do it, or use others";
  return "";
}

// Of an object that cannot be written.
Code code_of_refusal(int status, const std::string& code) {
  if (code == "QuotaExceeded" || status == 507) return Code::kNoSpace;
  if (code == "AccessDenied" || status == 405) return Code::kUnsupported;
  // Of keys, of a bucket that is gone or lies elsewhere, and of servers that are busy.
  const bool passing = status / 100 == 3 || status == 403 || code == "ExpiredToken" ||
                       code == "NoSuchBucket" || is_busy(status, code);
  return passing ? Code::kUnavailable : Code::kIo;
}

S3Request listing(const std::string& bucket, const std::string& prefix, int most) {
  return {.bucket = bucket,
          .key = "",
          .query = {{"delimiter", "/"},
                    {"encoding-type", "url"},
                    {"list-type", "2"},
                    {"max-keys", std::to_string(most)},
                    {"prefix", prefix}},
          .most = kListing};
}

// What the headers say of an object.
S3Object object_of(const std::string& key, const CurlAnswer& answer) {
  const auto header = [&](const char* name) {
    const auto found = answer.headers.find(name);
    return found == answer.headers.end() ? std::string() : found->second;
  };
  S3Object object{.key = key, .etag = header("etag"), .version = header("x-amz-version-id")};
  std::string size = header("content-range");  // bytes 0-9/1234
  size = size.empty() ? header("content-length") : size.substr(size.rfind('/') + 1);
  std::from_chars(size.data(), size.data() + size.size(), object.size);
  object.mtime_ns = to_nanoseconds(parse_http_date(header("last-modified")).value_or(0));
  return object;
}

}  // namespace

struct S3Client::State {
  State(S3Settings settings, Clock& waits_by, uint64_t seed)
      : connections(std::move(settings)), clock(waits_by), rng(seed, "s3 retries") {}

  // Until an answer comes that another attempt would not change, attempts are used up, or the next
  // one would begin after `until` (monotonic): the last one, whatever it says. kIo: none came.
  Result<CurlAnswer> send(const S3Request& request, int attempts = kS3Attempts,
                          nanoseconds until = nanoseconds::max());
  // The same, and an error for what is none of 2xx; kExists: another object is there.
  Result<CurlAnswer> ask(const S3Request& request, int attempts = kS3Attempts);
  Result<CurlAnswer> judged(const S3Request& request, Result<CurlAnswer> answer, int attempts);
  // Of an object.
  Result<CurlAnswer> ask_of_object(const S3Request& request);
  // Of the one that has this ETag, unless that is "".
  Result<CurlAnswer> ask_of_version(S3Request request, const std::string& etag,
                                    const std::string& version);
  nanoseconds pause_after(int attempt, const CurlAnswer* answer);
  // Whether the object has these bytes; kNotFound where it is not there.
  Result<bool> holds(const std::string& bucket, const std::string& key, std::string_view bytes);
  Status failure(const S3Request& request, const CurlAnswer& answer) const;
  bool is_broken(const std::string& object);
  void set_broken(const std::string& object, bool broken);

  S3Connections connections;
  Clock& clock;
  std::mutex mutex;  // of what follows
  Rng rng;
  std::set<std::string> broken;  // objects that could not be had, each while its bucket was there
};

bool S3Client::State::is_broken(const std::string& object) {
  const std::lock_guard guard(mutex);
  return broken.contains(object);
}

void S3Client::State::set_broken(const std::string& object, bool is) {
  const std::lock_guard guard(mutex);
  if (!is) {
    broken.erase(object);
  } else if (broken.size() < kBrokenObjects) {
    broken.insert(object);
  }
}

nanoseconds S3Client::State::pause_after(int attempt, const CurlAnswer* answer) {
  const milliseconds bound = std::min(kLongestWait, kFirstWait * (int64_t{1} << attempt));
  std::chrono::duration<double> pause(0);
  {
    const std::lock_guard guard(mutex);
    pause = bound * rng.next_uniform();
  }
  if (answer) {
    pause += std::min(retry_after(answer->headers, clock.unix_seconds()), kLongestToldWait);
  }
  return std::chrono::duration_cast<nanoseconds>(pause);
}

Status S3Client::State::failure(const S3Request& request, const CurlAnswer& answer) const {
  const S3Failure f = parse_s3_failure(answer.body);
  std::string text = "s3://" + request.bucket + "/" + printable(request.key, 1024) + ": " +
                     request.method + " is answered " + std::to_string(answer.status);
  if (!f.code.empty()) text += " " + f.code;
  if (!f.message.empty()) text += " (" + f.message + ")";
  const bool absent = answer.status == 404 && f.code != "NoSuchBucket";
  const Code code = absent                                 ? Code::kNotFound
                    : answer.status == kPreconditionFailed ? Code::kExists
                                                           : Code::kIo;
  return {code, text + remedy_for(answer.status, f.code)};
}

Result<CurlAnswer> S3Client::State::send(const S3Request& request, int attempts,
                                         nanoseconds until) {
  for (int attempt = 0;; ++attempt) {
    Result<CurlAnswer> answer = connections.send(request);
    const bool busy = answer.ok() ? is_busy(answer->status, parse_s3_failure(answer->body).code)
                                  : answer.status().code() == Code::kIo;
    if (busy && attempt + 1 < attempts) {
      const nanoseconds pause = pause_after(attempt, answer.ok() ? &*answer : nullptr);
      if (pause < until - clock.monotonic()) {
        clock.sleep(pause);
        continue;
      }
    }
    if (answer.ok()) return answer;
    return Status(answer.status().code(), "s3://" + request.bucket + "/" +
                                              printable(request.key, 1024) + ": " +
                                              answer.status().message());
  }
}

Result<CurlAnswer> S3Client::State::ask(const S3Request& request, int attempts) {
  return judged(request, send(request, attempts), attempts);
}

Result<CurlAnswer> S3Client::State::judged(const S3Request& request, Result<CurlAnswer> answer,
                                           int attempts) {
  if (!answer.ok() || answer->status / 100 == 2 || answer->status == kNothingThere) return answer;
  const Status s = failure(request, *answer);
  if (attempts == 1 || !is_busy(answer->status, parse_s3_failure(answer->body).code)) return s;
  return Status(s.code(), s.message() + ", " + std::to_string(attempts) + " times");
}

// A broken object must not look as if all were away, nor the other way round. One that is known to
// be broken is asked for once.
Result<CurlAnswer> S3Client::State::ask_of_object(const S3Request& request) {
  const std::string object = request.bucket + "/" + request.key;
  const bool known = is_broken(object);
  Result<CurlAnswer> answer = ask(request, known ? 1 : kS3Attempts);
  if (answer.ok() || answer.status().code() != Code::kIo) {
    if (known) set_broken(object, false);
    return answer;
  }
  const Result<CurlAnswer> listed = ask(listing(request.bucket, "", 1), 1);
  if (!listed.ok()) {
    // The answer to a HEAD does not say why.
    const bool says_why = std::string_view(request.method) != "HEAD";
    return Status(Code::kUnavailable, (says_why ? answer : listed).status().message());
  }
  if (known) return answer;
  answer = send(request, 1);  // it may be back
  const bool newest = request.query.empty();
  if (answer.ok() && newest && is_of_object(answer->status)) set_broken(object, true);
  return judged(request, std::move(answer), kS3Attempts + 1);
}

S3Client::S3Client(S3Settings settings, Clock& clock, uint64_t seed)
    : state_(std::make_unique<State>(std::move(settings), clock, seed)) {}

S3Client::~S3Client() = default;

Result<S3Page> S3Client::list(const std::string& bucket, const std::string& prefix,
                              const std::string& next, int most) {
  S3Request request = listing(bucket, prefix, most);
  if (!next.empty()) request.query["continuation-token"] = next;
  const Result<CurlAnswer> answer = state_->ask(request);
  // A bucket that is gone is no empty directory.
  if (!answer.ok()) return Status(Code::kUnavailable, answer.status().message());
  Result<S3Page> page = parse_s3_page(answer->body);
  if (!page.ok()) {
    return Status(page.status().code(), "s3://" + bucket + "/" + printable(prefix, 1024) + ": " +
                                            page.status().message());
  }
  return page;
}

Result<S3Object> S3Client::head(const std::string& bucket, const std::string& key) {
  const Result<CurlAnswer> answer =
      state_->ask_of_object({.method = "HEAD", .bucket = bucket, .key = key});
  if (!answer.ok()) return answer.status();
  return object_of(key, *answer);
}

// The version is asked for where the object is another one by now, and not at once: that takes a
// leave of its own, and what was deleted since would be read.
Result<CurlAnswer> S3Client::State::ask_of_version(S3Request request, const std::string& etag,
                                                   const std::string& version) {
  if (etag.empty()) return ask_of_object(request);
  request.headers.push_back("if-match: " + etag);
  Result<CurlAnswer> answer = ask_of_object(request);
  if (answer.status().code() != Code::kExists) return answer;
  const Status replaced(Code::kIo, answer.status().message());
  if (version.empty()) return replaced;
  request.headers.pop_back();
  request.query["versionId"] = version;
  answer = ask_of_object(request);
  if (answer.ok() || answer.status().code() == Code::kUnavailable) return answer;
  return Status(Code::kIo, replaced.message() + "; the version that was listed cannot be had: " +
                               answer.status().message() + " (s3:GetObjectVersion)");
}

Result<S3Bytes> S3Client::get(const std::string& bucket, const std::string& key, int64_t offset,
                              int64_t length, const std::string& etag, const std::string& version) {
  Result<CurlAnswer> answer =
      state_->ask_of_version({.bucket = bucket,
                              .key = key,
                              .headers = {"range: bytes=" + std::to_string(offset) + "-" +
                                          std::to_string(offset + length - 1)},
                              .most = std::max(static_cast<size_t>(length), kListing)},
                             etag, version);
  if (!answer.ok()) return answer.status();
  S3Bytes got{.bytes = std::move(answer->body), .object = object_of(key, *answer)};
  if (answer->status == kNothingThere) {
    Result<S3Object> object = head(bucket, key);
    if (!object.ok()) return object.status();
    got = {.bytes = "", .object = std::move(*object)};
  }
  const std::string name = "s3://" + bucket + "/" + printable(key, 1024);
  if (!etag.empty() && got.object.etag != etag) {  // not every server knows the condition
    return Status(Code::kIo, name + ": its ETag is " + printable(got.object.etag, 128) +
                                 remedy_for(kPreconditionFailed, ""));
  }
  if (answer->status == kNothingThere) return got;
  // A server that knows no ranges sends all of it.
  const auto begin = static_cast<size_t>(answer->status == 206 ? 0 : offset);
  got.bytes.resize(std::min(got.bytes.size(), begin + static_cast<size_t>(length)));
  got.bytes.erase(0, begin);
  const int64_t expected = std::clamp<int64_t>(got.object.size - offset, 0, length);
  if (static_cast<int64_t>(got.bytes.size()) != expected) {
    return Status(Code::kIo, name + ": " + std::to_string(got.bytes.size()) + " bytes came of " +
                                 std::to_string(expected));
  }
  return got;
}

Result<bool> S3Client::State::holds(const std::string& bucket, const std::string& key,
                                    std::string_view bytes) {
  const Result<CurlAnswer> answer =
      ask({.bucket = bucket, .key = key, .most = std::max(bytes.size(), kListing)});
  if (answer.ok()) return answer->body == bytes;
  if (answer.status().code() == Code::kTooLarge) return false;
  return answer.status();
}

// What is added is never another object's end: where a server knows no condition, it is asked
// before whether there is one.
Status S3Client::add(const std::string& bucket, const std::string& key, std::string_view bytes,
                     const std::string& type) {
  const Digest digest = sha256(bytes);
  S3Request request{
      .method = "PUT",
      .bucket = bucket,
      .key = key,
      .headers = {"content-type: " + type,
                  "x-amz-checksum-sha256: " +
                      to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()}),
                  "if-none-match: *"},
      .body = bytes,
      .most = kListing};
  const nanoseconds until = state_->clock.monotonic() + kAddPatience;
  Result<CurlAnswer> answer = state_->send(request, kS3Attempts, until);
  const auto is = [&](int status) { return answer.ok() && answer->status == status; };
  if (is(kPreconditionFailed) || is(kNotImplemented)) {
    const Result<bool> same = state_->holds(bucket, key, bytes);
    const bool absent = same.status().code() == Code::kNotFound;
    if (same.ok() && *same) return {};
    if (same.ok()) {
      return {Code::kExists, "s3://" + bucket + "/" + printable(key, 1024) +
                                 ": another object is there, which is left as it is"};
    }
    if (!absent) return {Code::kUnavailable, same.status().message()};
    if (is(kNotImplemented)) request.headers.pop_back();
    answer = state_->send(request, kS3Attempts, until);  // also where it went away meanwhile
  }
  if (!answer.ok()) return {Code::kUnavailable, answer.status().message()};
  if (answer->status / 100 == 2) return {};
  return {code_of_refusal(answer->status, parse_s3_failure(answer->body).code),
          state_->failure(request, *answer).message()};
}

Status S3Client::remove(const std::string& bucket, const std::string& key) {
  Status s =
      state_->ask({.method = "DELETE", .bucket = bucket, .key = key, .most = kListing}).status();
  return s.code() == Code::kNotFound ? Status() : s;
}

}  // namespace ndtrain::ndp
