// Objects of an S3, asked for over HTTP by libcurl, which signs the requests (AWS Signature
// Version 4). What a server is too busy for, and what a connection breaks off, is asked again up
// to kS3Attempts times, after a random time below a bound that doubles (full jitter), and after the
// seconds of Retry-After, five minutes at most. All calls may come from any number of threads; each
// keeps a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {

inline constexpr int kS3Attempts = 8;

struct S3Object {
  std::string key;
  int64_t size = 0;
  int64_t mtime_ns = 0;
  std::string etag;          // with its quotes; another one for other bytes
  std::string version = {};  // "" in a bucket without versions, and in a listing
};

// One page of what is directly below a prefix, where '/' parts the keys.
struct S3Page {
  std::vector<S3Object> objects;
  std::vector<std::string> prefixes;  // each with its '/' at the end
  std::string next;                   // of the following page; "" when this was the last
};

struct S3Bytes {
  std::string bytes;
  S3Object object;  // all of it, of which `bytes` are a part
};

// Errors name bucket, key, the status and S3's code, and say what helps. kNotFound: no such key.
// kUnavailable: nothing of the bucket can be had, since it is gone, keys are refused or no server
// answers. kIo is what is wrong with one object, while its bucket is listed.
class S3Client {
 public:
  S3Client(S3Settings settings, Clock& clock, uint64_t seed);
  ~S3Client();

  // "" as `next` begins. `most` from 1 to 1000.
  Result<S3Page> list(const std::string& bucket, const std::string& prefix, const std::string& next,
                      int most = 1000);
  Result<S3Object> head(const std::string& bucket, const std::string& key);
  // At most `length` (> 0) bytes from `offset`. With an `etag`, of the object that has it alone:
  // once another is there, of `version`, where that is known and still kept, else kIo. One that was
  // deleted since is kNotFound, whatever versions of it are kept.
  Result<S3Bytes> get(const std::string& bucket, const std::string& key, int64_t offset,
                      int64_t length, const std::string& etag = "",
                      const std::string& version = "");
  // An object where there is none yet, sent with its SHA-256, against which the server checks it.
  // One that is there already, with the same bytes, is as good; with others, it is kExists.
  // kUnsupported: these keys, or this server, write nothing there. kUnavailable: later it may; no
  // attempt begins after 20 s.
  Status add(const std::string& bucket, const std::string& key, std::string_view bytes,
             const std::string& type);
  Status remove(const std::string& bucket, const std::string& key);  // also one that is not there

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The XML of a listing. kCorrupt for what is none.
Result<S3Page> parse_s3_page(std::string_view xml);
// <Code> and <Message> of an error's XML, "" where it is none.
struct S3Failure {
  std::string code, message;
};
S3Failure parse_s3_failure(std::string_view xml);

}  // namespace ndtrain::ndp
