#include "ndp/http/http_connection.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/http/httplib_stream.h"

namespace ndtrain {
namespace {

constexpr std::chrono::seconds kIdle{60};      // between requests
constexpr std::chrono::seconds kPatience{10};  // within one
// A client that is still sending what nobody wants would not see why when we just hung up.
constexpr int64_t kDrained = int64_t{64} << 20;
constexpr std::chrono::seconds kDraining{1};

bool has_body(const httplib::Request& q) {
  return q.has_header("Transfer-Encoding") || q.get_header_value("Content-Length") != "0";
}

// httplib speaks the protocol; which route answers, and how large a body may be, is decided here.
class Dialogue final : private httplib::Server {
 public:
  explicit Dialogue(const HttpRoutes& routes) : routes_(routes) {
    const std::string any = "[\\s\\S]*";
    const Handler bare = [this](const auto& q, auto& a) { answer(q, a, nullptr); };
    const HandlerWithContentReader with_body = [this](const auto& q, auto& a, const auto& reader) {
      answer(q, a, &reader);
    };
    Get(any, bare).Options(any, bare);
    Post(any, with_body).Put(any, with_body).Patch(any, with_body).Delete(any, with_body);
    set_keep_alive_timeout(kIdle.count());  // these two only for the header that says so
    set_keep_alive_max_count(100000);
    set_error_handler([this](const httplib::Request&, httplib::Response& a) {
      if (!unread_ || !a.body.empty()) return;  // this is an answer of ours
      const HttpResponse r = http_error(a.status, "this is no request that the server understands");
      a.set_content(r.body, r.type);
      a.set_header("Connection", "close");
    });
  }

  // Answers one request; false when none can follow it.
  bool serve(HttplibStream& io) {
    bool closed = false;
    unread_ = true;
    io.allow(limits::kHttpHead);
    const bool answered = process_request(io, false, closed, [&](httplib::Request& q) {
      io.allow(INT64_MAX);
      // httplib would read such a body up to the end of the connection.
      const bool says = q.has_header("Content-Length") || q.has_header("Transfer-Encoding");
      if (!says) q.set_header("Content-Length", "0");
      // Matching a regular expression takes stack for each character.
      if (q.path.size() > static_cast<size_t>(limits::kHttpPath)) q.path.clear();
    });
    if (answered && unread_) io.drain(kDrained, kDraining);
    return answered && !closed && !unread_ && io.trouble().ok();
  }

 private:
  void answer(const httplib::Request& q, httplib::Response& a,
              const httplib::ContentReader* reader) {
    HttpResponse r;
    unread_ = has_body(q);
    try {
      r = respond(q, reader);
    } catch (const FsyncFailed& e) {
      log::error("{} {}: {}", q.method, q.path, e.what());
      std::terminate();  // the promise of core/publish.h, from a thread that main() cannot see
    } catch (const std::exception& e) {
      r = http_error(500, e.what());
    }
    a.status = r.status;
    a.set_content(r.body, r.type);
    if (unread_) a.set_header("Connection", "close");
  }

  HttpResponse respond(const httplib::Request& q, const httplib::ContentReader* reader) {
    const std::string method = q.method == "HEAD" ? "GET" : q.method;
    if (q.path.empty()) {
      return http_error(414, "the path is empty, or has more than " +
                                 std::to_string(limits::kHttpPath) + " bytes");
    }
    std::string others;
    for (const HttpRoutes::Entry& entry : routes_.entries) {
      std::smatch match;
      if (!std::regex_match(q.path, match, entry.pattern)) continue;
      if (entry.route.method != method) {
        others += (others.empty() ? "" : ", ") + entry.route.method;
        continue;
      }
      HttpRequest request{.method = q.method, .path = q.path};
      request.query.insert(q.params.begin(), q.params.end());
      request.captures.assign(std::next(match.begin()), match.end());
      if (unread_ && reader != nullptr) {
        if (const HttpResponse r = read_body(q, *reader, request.body); r.status != 200) return r;
      }
      return entry.route.handle(request);
    }
    if (others.empty()) return http_error(404, "there is no " + q.path + " here");
    return http_error(405, q.path + " takes " + others + ", not " + q.method);
  }

  // Its status is 200 when the body was read.
  HttpResponse read_body(const httplib::Request& q, const httplib::ContentReader& reader,
                         std::string& body) {
    if (q.is_multipart_form_data()) {
      return http_error(415, q.path + " takes the bytes as they are (curl --data-binary), no form");
    }
    const auto most = static_cast<uint64_t>(routes_.max_body);
    const HttpResponse too_large =
        http_error(413, "the body has more than " + std::to_string(most) + " bytes, the most " +
                            q.path + " takes");
    if (const std::string said = q.get_header_value("Content-Length"); !said.empty()) {
      uint64_t bytes = 0;
      const char* const end = said.data() + said.size();
      const auto [stop, error] = std::from_chars(said.data(), end, bytes);
      if (error == std::errc::invalid_argument || stop != end) {
        return http_error(400, "Content-Length: " + said + " is no number");
      }
      if (error != std::errc() || bytes > most) return too_large;
    }
    bool fits = true;
    const bool whole = reader([&](const char* data, size_t n) {
      fits = n <= most - body.size();
      if (fits) body.append(data, n);
      return fits;
    });
    if (!fits) return too_large;
    if (!whole) return http_error(400, "the body ended early, or is not in the form it should be");
    unread_ = false;
    return {};
  }

  const HttpRoutes& routes_;
  bool unread_ = false;  // a part of the request is still to be read
};

}  // namespace

HttpResponse http_error(int status, const std::string& what) {
  const nlohmann::json json = {{"error", what}};
  return {.status = status,
          .body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

void HttpConnection::run() {
  HttplibStream io(*stream_, kPatience);
  Dialogue dialogue(routes_);
  while (begin_wait()) {
    const bool comes = io.wait(kIdle);
    if (!end_wait() || !comes || !dialogue.serve(io)) break;
  }
  stream_->close();
}

void HttpConnection::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  if (idle_) stream_->close();
}

bool HttpConnection::begin_wait() {
  const std::lock_guard lock(mutex_);
  idle_ = !stopping_;
  return idle_;
}

bool HttpConnection::end_wait() {
  const std::lock_guard lock(mutex_);
  idle_ = false;
  return !stopping_;
}

}  // namespace ndtrain
