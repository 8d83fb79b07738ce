// One request to S3, signed, without trying again.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ndp/s3/http_by_curl.h"
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

// UTF-8 as S3 wants it in a path or a query: all but letters, digits, "-._~" and what is in `keep`
// as %XX.
std::string s3_encoded(std::string_view text, std::string_view keep = "");

// Any number of threads; connections are kept and used again.
class S3Connections {
 public:
  explicit S3Connections(S3Settings settings);
  // kIo where no whole answer came, or the keys could not be had.
  Result<CurlAnswer> send(const S3Request& request);

 private:
  const S3Settings settings_;
  CurlConnections connections_;
};

}  // namespace ndtrain::ndp
