// One request over HTTP, as libcurl sends it, without trying again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"

namespace ndtrain::ndp {

struct CurlRequest {
  std::string method = "GET", url;        // encoded; a method is GET, HEAD, PUT, POST or DELETE
  std::vector<std::string> headers = {};  // "name: value"
  std::string_view body = {};
  size_t most = 0;             // bytes of the answer's body
  std::string signed_as = {};  // "aws:amz:REGION:s3", and by whom: "KEY:SECRET"; "" is not signed
  std::string keys = {};
  int connect_seconds = 10, stall_seconds = 30;  // without a connection, without a byte
};

struct CurlAnswer {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
};

// Any number of threads; connections are kept and used again.
class CurlConnections {
 public:
  CurlConnections();
  ~CurlConnections();
  // kIo where no whole answer came, kTooLarge where it is longer than `most`.
  Result<CurlAnswer> send(const CurlRequest& request);

 private:
  struct Handle;
  std::unique_ptr<Handle> take();
  void give(std::unique_ptr<Handle> handle);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Handle>> idle_;
};

}  // namespace ndtrain::ndp
