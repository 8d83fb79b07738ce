// A small HTTP/1.1 server for what people and their tools ask of a role: health, metrics, jobs,
// uploads. Not for the wire between roles.
//
// One thread waits for all connections, others run the handlers (http_limits.h). Errors are JSON:
// {"error": "..."}. 404 and 405 for what no route takes, 413 for a body over the limit, 500 for a
// handler that throws, 503 where as many requests are being answered as can be.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "ndp/http/http_limits.h"
#include "ndp/http/role.h"

namespace ndtrain {
class TlsServer;
}

namespace ndtrain::ndp {

struct HttpRequest {
  std::string method, path;
  std::map<std::string, std::string> query;
  std::vector<std::string> captures;  // groups of the route's pattern
  std::string body;
  std::string who;         // whose token came with it; "" where none is needed
  std::string collection;  // that their token is for, and nothing else; "": all
  std::string peer;        // the client's host, as text; the address itself for a unix socket
  // Whose process asks by loopback; absent: it is not known.
  std::optional<uid_t> user = {};
  std::string cookie;    // how a browser's session is called here (session_cookie())
  std::string session;   // its value, where that and no token let the request in
  bool foreign = false;  // the browser says that it comes from a page of another site
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::map<std::string, std::string> headers = {};
  // Not empty: the body is what this gives, piece by piece, until it gives nothing, and `body` is
  // not used; the connection ends with it. Waits for nothing: an empty piece is asked after again a
  // little later. When the client has gone or does not take what it was sent, connections run short
  // or the server ends, it is not called again.
  std::function<std::optional<std::string>()> pieces = {};
};

class Access;
class AuditLog;

HttpResponse http_error(int status, const std::string& what);

// Called on any of the server's threads, several at a time.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// Whether a body of at most so many bytes may be read into memory.
struct HttpAdmission {
  std::shared_ptr<void> held;          // until the request is answered
  std::optional<HttpResponse> refuse;  // the answer, without reading
  // That is because bodies that others bring have all the room: the slowest of these makes way, if
  // it has had its time (HttpLimits::patience), and this is asked again.
  bool full = false;
};
using HttpAdmit = std::function<HttpAdmission(const HttpRequest&, int64_t bytes)>;

// How much of a body there is when it is asked what it begins with.
inline constexpr size_t kHttpBeginning = 32;
// Why a body with this beginning, of at least kHttpBeginning bytes, is none that the route takes;
// nothing: it may be one. Called on the server's own thread: waits for nothing.
using HttpBegin =
    std::function<std::optional<HttpResponse>(const HttpRequest&, std::string_view beginning)>;

// What a route does with bodies.
struct HttpBody {
  bool read = true;   // false: the handler answers without it
  int64_t most = -1;  // bytes; -1: the server's limit (see listen())
  // multipart/form-data with one file is taken too, and the file is the body.
  bool form = false;
  HttpAdmit admit = {};
  // A long body is refused by its beginning, unread; forms and short ones are the handler's.
  HttpBegin begin = {};
};

// What keeps strangers out. What is absent keeps nobody: anybody may ask for everything, nothing is
// recorded, and it goes in the clear.
struct HttpProtection {
  Access* access = nullptr;   // must outlive the server, as the next
  AuditLog* audit = nullptr;  // 500 or 507, and no change, where it cannot be written
  std::shared_ptr<const TlsServer> tls = {};
  // Hosts that requests may be for, besides the address that a client reached and, on loopback,
  // localhost: 421 for others, 400 for none. What is in the certificate and in the address that is
  // listened on need not be said.
  std::optional<std::vector<std::string>> names = {};
  // Requests a second, and as many at once, of one token or, without one, of one address that is
  // not this machine's, where a proxy may stand: 429 beyond. 0: any number. Those that say how the
  // process does are not counted.
  double rate = 0;
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
    HttpPermission need;  // who may ask
    HttpHandler handle;
    HttpBody body = {};
    HttpAudit audit = {};
  };

  // `address` is "host:port" (port 0: any) or "unix:/path"; the Status says why it cannot be had.
  // The first route that fits answers. Bodies have at most `max_body` bytes. Who has no token that
  // does gets 401, who may not do it 403, before a body is read; so does what another site's page
  // asks for (403; it may have what anyone may read), and who gives no body, or two, its length
  // (400).
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& address,
                                                    std::vector<Route> routes, int64_t max_body,
                                                    HttpProtection protection = {},
                                                    const HttpLimits& limits = {});
  // Takes no more requests, and waits for the handlers: who makes one wait must end that first.
  // What is on its way in is given up, and who takes an answer has two seconds: drain() comes
  // before.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // From now on nobody new is let in, each answer is the last of its connection, /healthz and
  // /readyz say 503, and answers in pieces end. Waits for none of it.
  void drain();
  // No request is under way any more. A client that lets one wait for longer than it is waited
  // for elsewhere (HttpLimits::patience) counts as none until its head is there.
  bool drained() const;

  std::string address() const;  // with the port the system chose
  // Of each route what it needs and records: "PUT /jobs/([0-9]+): operator, recorded as job".
  std::vector<std::string> needs() const;

 private:
  class Running;
  explicit HttpServer(std::unique_ptr<Running> running);

  std::unique_ptr<Running> running_;
};

}  // namespace ndtrain::ndp
