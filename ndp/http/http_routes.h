// Which route answers a request, and what it answers. On the threads of handlers; knows nothing of
// connections.
#pragma once

#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "ndp/http/fair_queue.h"
#include "ndp/http/http_message.h"
#include "ndp/http/rate_limiter.h"

namespace ndtrain::ndp {

// A connection's two ends, as text.
struct HttpEndpoints {
  std::string peer;                // the client's host; the address itself for a unix socket
  std::string local;               // the address that it reached; the same for a unix socket
  std::optional<uid_t> user = {};  // as HttpRequest::user
};

// What is to be done about a request whose head is there.
struct HttpPlan {
  const HttpServer::Route* route = nullptr;  // null: `answer` is all there is
  HttpResponse answer;
  HttpRequest request;
  RequestClass of = RequestClass::kPerson;
  // Whose turn it takes: a token or an address; "" for this machine's, where a proxy may stand.
  std::string client;
  bool ready = false;  // it asks whether the process does: /healthz or /readyz
  bool reads = false;  // its body, of at most `most` bytes, comes first
  bool form = false;
  bool begun = false;                 // the route has seen how the body begins
  std::string type;                   // Content-Type
  uint64_t most = 0, most_bytes = 0;  // of what is wanted of the body; of the body itself
  uint64_t comes = 0;                 // of which so much may come, as the request says
  bool crowded = false;               // bodies have all the room, and `answer` says so
  std::shared_ptr<void> held;         // until the request is answered
};

class HttpRoutes {
 public:
  // Throws Error for a pattern that is none.
  HttpRoutes(std::vector<HttpServer::Route> routes, int64_t max_body, HttpProtection protection);

  HttpPlan plan(const HttpHead& head, const HttpEndpoints& ends) const;
  // Before the body of a plan is read: whether there is room for it. Sets `held`, or `crowded`; may
  // be tried again.
  void admit(HttpPlan& plan) const;
  // Of a part of the body: why the rest is not to be read. Asks the route once.
  static std::optional<HttpResponse> objection(HttpPlan& plan, std::string_view so_far);
  // What the route answers; the body is there.
  HttpResponse answer(HttpPlan& plan) const;
  static HttpResponse too_large(const HttpPlan& plan);
  const HttpProtection& protection() const { return protection_; }
  std::vector<std::string> needs() const;

 private:
  struct Entry {
    HttpServer::Route route;
    std::string beginning;  // of each path that fits the pattern
    std::regex pattern;
  };
  struct Rates {
    std::mutex mutex;
    RateLimiter limiter;
  };
  std::optional<HttpResponse> objection(const HttpHead& head, const HttpServer::Route* route,
                                        HttpPlan& plan) const;
  std::optional<HttpResponse> too_many(const HttpPlan& plan) const;
  std::optional<HttpResponse> body_objection(const HttpHead& head, HttpPlan& plan) const;
  std::vector<std::string> names() const;  // those of the certificate that is shown now, too
  HttpResponse recorded(const HttpServer::Route& route, const HttpRequest& request) const;

  std::vector<Entry> entries_;
  const int64_t max_body_;
  const HttpProtection protection_;
  std::unique_ptr<Rates> rates_;
};

}  // namespace ndtrain::ndp
