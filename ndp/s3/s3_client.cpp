#include "ndp/s3/s3_client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <mutex>
#include <optional>
#include <utility>

#include "framework/core/base64.h"
#include "framework/core/hash.h"
#include "framework/core/rng.h"
#include "framework/core/text.h"
#include "ndp/s3/s3_request.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kFirstWait{100}, kLongestWait{20'000}, kLongestToldWait{300'000};
constexpr std::chrono::seconds kAddPatience{20};  // somebody waits for the answer
constexpr size_t kListing = size_t{16} << 20;     // bytes of a page, or of an error's XML

constexpr int kNothingThere = 416;  // of a range that begins behind the end

constexpr int kNotImplemented = 501, kPreconditionFailed = 412;

// What another attempt may change; also bytes that were damaged on their way.
bool is_busy(int status, const std::string& code) {
  if (status == kNotImplemented) return false;
  constexpr std::string_view kPassing[] = {
      "SlowDown",         "RequestTimeout", "ConditionalRequestConflict",
      "OperationAborted", "BadDigest",      "XAmzContentSHA256Mismatch"};
  return status == 429 || status >= 500 || std::ranges::count(kPassing, code) > 0;
}

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
  S3Object object{.key = key, .etag = header("etag")};
  std::string size = header("content-range");  // bytes 0-9/1234
  size = size.empty() ? header("content-length") : size.substr(size.rfind('/') + 1);
  std::from_chars(size.data(), size.data() + size.size(), object.size);
  std::tm t{};
  if (strptime(header("last-modified").c_str(), "%a, %d %b %Y %H:%M:%S GMT", &t)) {
    object.mtime_ns = int64_t{timegm(&t)} * 1'000'000'000;
  }
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
  // The same, and an error for what is none of 2xx.
  Result<CurlAnswer> ask(const S3Request& request, int attempts = kS3Attempts);
  // Of an object.
  Result<CurlAnswer> ask_of_object(const S3Request& request);
  nanoseconds pause_after(int attempt, const CurlAnswer* answer);
  // Whether the object has these bytes; kNotFound where it is not there.
  Result<bool> holds(const std::string& bucket, const std::string& key, std::string_view bytes);
  Status failure(const S3Request& request, const CurlAnswer& answer) const;

  S3Connections connections;
  Clock& clock;
  std::mutex mutex;  // of rng
  Rng rng;
};

nanoseconds S3Client::State::pause_after(int attempt, const CurlAnswer* answer) {
  const milliseconds bound = std::min(kLongestWait, kFirstWait * (int64_t{1} << attempt));
  std::chrono::duration<double> pause(0);
  {
    const std::lock_guard guard(mutex);
    pause = bound * rng.next_uniform();
  }
  if (answer) {
    const auto told = answer->headers.find("retry-after");
    int64_t seconds = 0;
    if (told != answer->headers.end()) {
      const std::string& text = told->second;
      std::from_chars(text.data(), text.data() + text.size(), seconds);
    }
    seconds = std::clamp<int64_t>(seconds, 0, kLongestToldWait.count() / 1000);
    pause += std::chrono::seconds(seconds);
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
  return {absent ? Code::kNotFound : Code::kIo, text + remedy_for(answer.status, f.code)};
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
  Result<CurlAnswer> answer = send(request, attempts);
  if (!answer.ok() || answer->status / 100 == 2 || answer->status == kNothingThere) return answer;
  const Status s = failure(request, *answer);
  if (!is_busy(answer->status, parse_s3_failure(answer->body).code)) return s;
  return Status(s.code(), s.message() + ", " + std::to_string(attempts) + " times");
}

// A broken object must not look as if all were away, nor the other way round.
Result<CurlAnswer> S3Client::State::ask_of_object(const S3Request& request) {
  Result<CurlAnswer> answer = ask(request);
  if (answer.ok() || answer.status().code() != Code::kIo) return answer;
  const Result<CurlAnswer> listed = ask(listing(request.bucket, "", 1), 1);
  if (listed.ok()) return ask(request);  // it may be back
  // The answer to a HEAD does not say why.
  const bool says_why = std::string_view(request.method) != "HEAD";
  return Status(Code::kUnavailable, (says_why ? answer : listed).status().message());
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

Result<S3Bytes> S3Client::get(const std::string& bucket, const std::string& key, int64_t offset,
                              int64_t length, const std::string& etag) {
  S3Request request{.bucket = bucket,
                    .key = key,
                    .headers = {"range: bytes=" + std::to_string(offset) + "-" +
                                std::to_string(offset + length - 1)},
                    .most = std::max(static_cast<size_t>(length), kListing)};
  if (!etag.empty()) request.headers.push_back("if-match: " + etag);
  Result<CurlAnswer> answer = state_->ask_of_object(request);
  if (!answer.ok()) return answer.status();
  if (answer->status == kNothingThere) {
    Result<S3Object> object = head(bucket, key);
    if (!object.ok()) return object.status();
    return S3Bytes{.bytes = "", .object = std::move(*object)};
  }
  S3Bytes got{.bytes = std::move(answer->body), .object = object_of(key, *answer)};
  // A server that knows no ranges sends all of it.
  const auto begin = static_cast<size_t>(answer->status == 206 ? 0 : offset);
  got.bytes.resize(std::min(got.bytes.size(), begin + static_cast<size_t>(length)));
  got.bytes.erase(0, begin);
  const int64_t expected = std::clamp<int64_t>(got.object.size - offset, 0, length);
  if (static_cast<int64_t>(got.bytes.size()) != expected) {
    return Status(Code::kIo, "s3://" + bucket + "/" + printable(key, 1024) + ": " +
                                 std::to_string(got.bytes.size()) + " bytes came of " +
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
