// A small HTTP/1.1 server for what people and their tools ask of a role: health, metrics, jobs,
// uploads. Not for the wire between roles.
//
// A connection is kept for further requests; each has a thread. Errors are JSON: {"error": "..."}.
// 404 and 405 for what no route takes, 413 for a body over the limit, 500 for a handler that
// throws. The process ignores SIGPIPE once there is a server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "ndp/http/role.h"

namespace ndtrain {

struct HttpRequest {
  std::string method, path;
  std::map<std::string, std::string> query;
  std::vector<std::string> captures;  // groups of the route's pattern
  std::string body;
  std::string peer;  // the client's host, as text; the address itself for a unix socket
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::map<std::string, std::string> headers = {};
};

HttpResponse http_error(int status, const std::string& what);

// Called on any of the server's threads, several at a time. FsyncFailed ends the process.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// Whether a body of at most so many bytes may be read into memory.
struct HttpAdmission {
  std::shared_ptr<void> held;          // until the request is answered
  std::optional<HttpResponse> refuse;  // the answer, without reading
};
using HttpAdmit = std::function<HttpAdmission(const HttpRequest&, int64_t bytes)>;

// What a route does with bodies.
struct HttpBody {
  bool read = true;   // false: the handler answers without it
  int64_t most = -1;  // bytes; -1: the server's limit
  // multipart/form-data with one file is taken too, and the file is the body.
  bool form = false;
  HttpAdmit admit = {};
};

// What a route changes, as the audit log says it.
struct HttpAudit {
  std::string what = {};  // "label"; "": nothing that is recorded
  // What was, before the handler changes it; may be absent.
  std::function<std::string(const HttpRequest&)> before = {};
};

class HttpServer {
 public:
  struct Route {
    std::string method;   // "GET" answers HEAD too
    std::string pattern;  // a regular expression for the whole path, as in "/jobs/([^/]+)"
    HttpNeed need;        // who may ask
    HttpHandler handle;
    HttpBody body = {};
    HttpAudit audit = {};
  };

  // `address` is "host:port" (port 0: any) or "unix:/path"; the Status says why it cannot be had.
  // The first route that fits answers. Bodies have at most `max_body` bytes.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& address,
                                                    std::vector<Route> routes, int64_t max_body);
  // Takes no more requests, and waits for the handlers: who makes one wait must end that first.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // with the port the system chose

 private:
  class Running;
  explicit HttpServer(std::unique_ptr<Running> running);

  std::unique_ptr<Running> running_;
};

}  // namespace ndtrain
