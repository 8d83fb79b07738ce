#include "ndp/http/http_connection.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/http/access.h"
#include "ndp/http/audit.h"
#include "ndp/http/httplib_stream.h"

namespace ndtrain {
namespace {

constexpr std::chrono::seconds kIdle{60};      // between requests
constexpr std::chrono::seconds kPatience{10};  // within one
// A client that is still sending what nobody wants would not see why when we just hung up.
constexpr int64_t kDrained = int64_t{64} << 20;
constexpr std::chrono::seconds kDraining{1};
constexpr std::chrono::seconds kGrace{2};  // for a first request, where connections are short
constexpr uint64_t kFormExtra = uint64_t{64} << 10;  // what a form may have around its file

// Without the port.
std::string host_of(const std::string& peer) {
  return peer.starts_with("unix:") ? peer : peer.substr(0, peer.rfind(':'));
}

// A page of another site that a browser shows may ask us too, from loopback for example; whoever
// looks at it did not mean that.
bool is_of_another_site(const httplib::Request& q) {
  if (q.method == "GET" || q.method == "HEAD") return false;
  if (const std::string from = q.get_header_value("Sec-Fetch-Site"); !from.empty()) {
    return from != "same-origin" && from != "none";
  }
  const std::string origin = q.get_header_value("Origin");
  const size_t host = origin.find("://");
  return !origin.empty() &&
         (host == std::string::npos || origin.substr(host + 3) != q.get_header_value("Host"));
}

bool has_body(const httplib::Request& q) {
  return q.has_header("Transfer-Encoding") || q.get_header_value("Content-Length") != "0";
}

// httplib speaks the protocol; which route answers, and how large a body may be, is decided here.
class Dialogue final : private httplib::Server {
 public:
  Dialogue(const HttpRoutes& routes, const std::string& peer)
      : routes_(routes), peer_(host_of(peer)) {
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

  // Answers one request, in pieces until `stopping`; false when none can follow it.
  bool serve(HttplibStream& io, const std::function<bool()>& stopping) {
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
    if (answered && pieces_) send_pieces(io, stopping);
    if (answered && unread_) io.drain(kDrained, kDraining);
    return answered && !closed && !unread_ && !pieces_ && io.trouble().ok();
  }

 private:
  void send_pieces(HttplibStream& io, const std::function<bool()>& stopping) {
    try {
      while (!stopping() && !io.hung_up()) {
        const std::optional<std::string> piece = pieces_();
        if (!piece) break;
        if (!piece->empty() && static_cast<httplib::Stream&>(io).write(*piece) < 0) break;
      }
    } catch (const std::exception& e) {
      log::warn("an answer ends early: {}", e.what());
    }
  }

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
    if (r.pieces) {
      // httplib writes the head: without a length, the body ends where the connection does.
      a.set_content_provider(r.type, [](size_t, httplib::DataSink& sink) {
        sink.done();
        return true;
      });
      if (q.method != "HEAD") pieces_ = std::move(r.pieces);
    } else {
      a.set_content(r.body, r.type);
    }
    for (const auto& [name, value] : r.headers) a.set_header(name, value);
    if (unread_ || pieces_) a.set_header("Connection", "close");
  }

  HttpResponse respond(const httplib::Request& q, const httplib::ContentReader* reader) {
    const std::string method = q.method == "HEAD" ? "GET" : q.method;
    if (q.path.empty()) {
      return http_error(414, "the path is empty, or has more than " +
                                 std::to_string(limits::kHttpPath) + " bytes");
    }
    HttpRequest request{.method = q.method, .path = q.path, .peer = peer_};
    request.query.insert(q.params.begin(), q.params.end());
    std::string others;
    for (const HttpRoutes::Entry& entry : routes_.entries) {
      std::smatch match;
      if (!std::regex_match(q.path, match, entry.pattern)) continue;
      if (entry.route.method != method) {
        others += (others.empty() ? "" : ", ") + entry.route.method;
        continue;
      }
      if (auto no = objection(q, &entry.route.need, request)) return *std::move(no);
      request.captures.assign(std::next(match.begin()), match.end());
      std::shared_ptr<void> held;
      if (unread_ && reader != nullptr && entry.route.body.read) {
        const HttpResponse r = take_body(q, *reader, entry.route.body, request, held);
        if (r.status != 200) return r;
      }
      return entry.route.audit.what.empty() ? entry.route.handle(request)
                                            : recorded(entry.route, request);
    }
    if (auto no = objection(q, nullptr, request)) return *std::move(no);
    if (others.empty()) return http_error(404, "there is no " + q.path + " here");
    return http_error(405, q.path + " takes " + others + ", not " + q.method);
  }

  // `need` is null where there is nothing of this path.
  std::optional<HttpResponse> objection(const httplib::Request& q, const HttpNeed* need,
                                        HttpRequest& request) const {
    if (Access* const access = routes_.protection.access) {
      Access::Verdict v = access->check(request, q.get_header_value("Authorization"), need);
      if (v.refuse) return std::move(v.refuse);
      request.who = std::move(v.who);
      request.token = std::move(v.token);
    }
    if (!is_of_another_site(q)) return std::nullopt;
    return http_error(403, "a page of " + q.get_header_value("Origin") +
                               " asks for it, which is another site than this");
  }

  HttpResponse recorded(const HttpServer::Route& route, const HttpRequest& request) const {
    AuditLog* const audit = routes_.protection.audit;
    if (!audit) return route.handle(request);
    AuditLine line{.who = request.who,
                   .address = request.peer,
                   .what = route.audit.what,
                   .request = request.method + " " + request.path,
                   .asked = request.body,
                   .before = route.audit.before ? route.audit.before(request) : ""};
    if (const Status s = audit->add(line); !s.ok()) {
      return http_error(s.code() == Code::kNoSpace ? 507 : 500,
                        "who asks for it cannot be recorded, so it was not done: " + s.message());
    }
    const auto failed = [&](int status) {
      line.failed = status;
      if (const Status s = audit->add(line); !s.ok()) log::error("{}", s.message());
    };
    try {
      HttpResponse r = route.handle(request);
      if (r.status >= 400) failed(r.status);
      return r;
    } catch (const FsyncFailed&) {
      throw;
    } catch (const std::exception&) {
      failed(500);
      throw;
    }
  }

  // Its status is 200 when the body was read.
  HttpResponse take_body(const httplib::Request& q, const httplib::ContentReader& reader,
                         const HttpBody& rule, HttpRequest& request, std::shared_ptr<void>& held) {
    const bool form = q.is_multipart_form_data();
    if (form && !rule.form) {
      return http_error(415, q.path + " takes the bytes as they are (curl --data-binary), no form");
    }
    const auto most = static_cast<uint64_t>(rule.most < 0 ? routes_.max_body : rule.most);
    const HttpResponse too_large =
        http_error(413, "the body has more than " + std::to_string(most) + " bytes, the most " +
                            q.path + " takes");
    uint64_t comes = most;
    if (const std::string said = q.get_header_value("Content-Length"); !said.empty()) {
      uint64_t bytes = 0;
      const char* const end = said.data() + said.size();
      const auto [stop, error] = std::from_chars(said.data(), end, bytes);
      if (error == std::errc::invalid_argument || stop != end) {
        return http_error(400, "Content-Length: " + said + " is no number");
      }
      if (error != std::errc() || bytes > most + (form ? kFormExtra : 0)) return too_large;
      comes = std::min(bytes, most);
    }
    if (rule.admit) {
      HttpAdmission admission = rule.admit(request, static_cast<int64_t>(comes));
      if (admission.refuse) return *std::move(admission.refuse);
      held = std::move(admission.held);
    }
    bool fits = true;
    const auto append = [&](const char* data, size_t n) {
      fits = n <= most - request.body.size();
      if (fits) request.body.append(data, n);
      return fits;
    };
    HttpResponse r = form ? read_form(q, reader, append) : read_whole(reader, append);
    if (!fits) return too_large;
    if (r.status == 200) unread_ = false;
    return r;
  }

  HttpResponse read_whole(const httplib::ContentReader& reader,
                          const httplib::ContentReceiver& append) {
    if (reader(append)) return {};
    return http_error(400, "the body ended early, or is not in the form it should be");
  }

  HttpResponse read_form(const httplib::Request& q, const httplib::ContentReader& reader,
                         const httplib::ContentReceiver& append) {
    int files = 0;
    bool in_file = false;
    const bool whole = reader(
        [&](const httplib::MultipartFormData& part) {
          in_file = !part.filename.empty();
          files += in_file;
          return files <= 1;
        },
        [&](const char* data, size_t n) { return !in_file || append(data, n); });
    if (files > 1) return http_error(400, q.path + " takes one file at a time");
    if (!whole) return http_error(400, "the form ended early, or is not what its header says");
    if (files == 1) return {};
    return http_error(400, "the form has no file in it; curl -F photo=@x.jpg sends one");
  }

  const HttpRoutes& routes_;
  const std::string peer_;
  bool unread_ = false;                                 // a part of the request is still to be read
  std::function<std::optional<std::string>()> pieces_;  // of the answer, to be sent
};

}  // namespace

HttpResponse http_error(int status, const std::string& what) {
  const nlohmann::json json = {{"error", what}};
  return {.status = status,
          .body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

void HttpConnection::run() {
  HttplibStream io(*stream_, kPatience);
  Dialogue dialogue(routes_, stream_->peer());
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  while (begin_wait()) {
    const bool comes = io.wait(kIdle);
    if (!end_wait() || !comes || !dialogue.serve(io, stopping)) break;
  }
  stream_->close();
}

void HttpConnection::make_way() {
  {
    const std::lock_guard lock(mutex_);
    if (!served_ && std::chrono::steady_clock::now() - begun_ < kGrace) return;
  }
  stop();
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
  served_ = true;
  return !stopping_;
}

}  // namespace ndtrain
