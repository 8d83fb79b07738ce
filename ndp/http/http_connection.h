// One connection of an HttpServer, from its first request to its end.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <regex>
#include <vector>

#include "framework/core/net.h"
#include "ndp/http/http_server.h"

namespace ndtrain {

struct HttpRoutes {
  struct Entry {
    HttpServer::Route route;
    std::regex pattern;
  };
  std::vector<Entry> entries;
  int64_t max_body = 0;
  HttpProtection protection = {};
};

class HttpConnection {
 public:
  HttpConnection(std::unique_ptr<Stream> stream, const HttpRoutes& routes)
      : routes_(routes), stream_(std::move(stream)) {}

  // On one thread: answers requests until either side ends the connection.
  void run();
  // From any thread: ends the connection, after the answer to the request underway.
  void stop();
  // The same, but for one that has just begun: its first request is on the way.
  void make_way();
  // From any thread: also when the other side does not take the answer.
  void abandon() { stream_->close(); }

 private:
  bool begin_wait();
  bool end_wait();

  const HttpRoutes& routes_;
  const std::unique_ptr<Stream> stream_;
  std::mutex mutex_;  // of all below
  bool idle_ = false, stopping_ = false, served_ = false;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace ndtrain
