// One request to S3, as libcurl sends it, without trying again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ndp/s3/s3_settings.h"

namespace ndtrain::ndp {

struct S3Request {
  const char* method = "GET";
  std::string bucket, key;
  std::map<std::string, std::string> query = {};  // neither is encoded
  std::vector<std::string> headers = {};          // "name: value"
  std::string_view body = {};
  size_t most = 0;  // bytes of the answer's body
};

struct S3Answer {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
};

// UTF-8 as S3 wants it in a path or a query: all but letters, digits, "-._~" and what is in `keep`
// as %XX.
std::string s3_encoded(std::string_view text, std::string_view keep = "");

// Any number of threads; connections are kept and used again.
class S3Connections {
 public:
  explicit S3Connections(S3Settings settings);
  ~S3Connections();
  // kIo where no whole answer came.
  Result<S3Answer> send(const S3Request& request);
  const S3Settings& settings() const { return settings_; }

 private:
  struct Handle;
  std::unique_ptr<Handle> take();
  void give(std::unique_ptr<Handle> handle);

  const S3Settings settings_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;
};

}  // namespace ndtrain::ndp
