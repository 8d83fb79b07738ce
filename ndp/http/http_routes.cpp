#include "ndp/http/http_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "framework/tls/tls.h"
#include "ndp/http/access.h"
#include "ndp/http/audit.h"
#include "ndp/http/browser_sessions.h"
#include "ndp/http/form_data.h"
#include "ndp/http/http_limits.h"
#include "ndp/http/http_origin.h"

namespace ndtrain::ndp {
namespace {

constexpr uint64_t kFormExtra = uint64_t{64} << 10;  // what a form may have around its file

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// %XX becomes its byte; what is none stays as it is.
std::string decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex(text[i + 1]) : -1;
    const int low = high >= 0 ? hex(text[i + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

// What each path that fits begins with: most routes do not fit a request, and a regular expression
// takes far longer to say so.
std::string beginning_of(const std::string& pattern) {
  if (pattern.find('|') != std::string::npos) return "";
  std::string plain = pattern.substr(0, pattern.find_first_of("^$\\.*+?()[]{}"));
  const size_t end = plain.size();
  const bool repeated =
      end < pattern.size() && std::string_view("*+?{").find(pattern[end]) != std::string_view::npos;
  if (repeated && !plain.empty()) plain.pop_back();  // or there may be none of it
  return plain;
}

HttpRequest request_of(const HttpHead& head, const HttpEndpoints& ends, bool tls) {
  HttpRequest request{.method = head.method,
                      .peer = ends.peer,
                      .user = ends.user,
                      .cookie = session_cookie(head.field("Host"), tls),
                      .foreign = is_foreign(head).value_or(false)};
  std::string_view target = head.target;
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  // A longer path is not decoded: there is no route for it.
  if (target.starts_with('/') && question <= 3 * static_cast<size_t>(limits::kHttpPath)) {
    request.path = decoded(target.substr(0, question), false);
  }
  std::string_view rest = target.substr(std::min(question + 1, target.size()));
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.empty()) continue;
    request.query.emplace(decoded(pair.substr(0, equals), true),
                          decoded(pair.substr(std::min(equals + 1, pair.size())), true));
  }
  return request;
}

bool says_ready(std::string_view path) { return path == "/healthz" || path == "/readyz"; }

// Whether it says how the process does.
bool is_health(std::string_view path) { return says_ready(path) || path == "/metrics"; }

// Photos are uploads whoever brings them; of the rest an operator's token goes before others', and
// so do the routes by which the process is worked.
RequestClass class_of(const HttpServer::Route& route, Role role) {
  if (is_health(route.pattern)) return RequestClass::kHealth;
  if (route.body.admit || route.need.role == Role::kUploader) return RequestClass::kUpload;
  const bool operates = std::max(route.need.role, role) >= Role::kOperator;
  return operates ? RequestClass::kOperator : RequestClass::kPerson;
}

bool is_own_machine(const std::string& peer) {
  return is_loopback_host(peer) || peer.starts_with("unix:") || peer.empty();
}

// No address has a space.
std::string client_of(const HttpRequest& request) {
  if (!request.who.empty()) return "the token of " + request.who;
  return is_own_machine(request.peer) ? "" : request.peer;
}

HttpResponse of_form(HttpPlan& plan) {
  const Status s = leave_the_file(plan.type, plan.request.body);
  if (s.code() == Code::kExists)
    return http_error(400, plan.request.path + " takes one file at a time");
  return s.ok() ? HttpResponse() : http_error(400, s.message());
}

}  // namespace

HttpResponse http_error(int status, const std::string& what) {
  const Json json = {{"error", what}};
  return {.status = status, .body = json_text_replacing(json) + "\n"};
}

HttpRoutes::HttpRoutes(std::vector<HttpServer::Route> routes, int64_t max_body,
                       HttpProtection protection)
    : max_body_(max_body),
      protection_(std::move(protection)),
      rates_(new Rates{.mutex = {}, .limiter = RateLimiter(protection_.rate)}) {
  for (HttpServer::Route& route : routes) {
    std::regex pattern(route.pattern);
    std::string beginning = beginning_of(route.pattern);
    entries_.push_back({std::move(route), std::move(beginning), std::move(pattern)});
  }
}

HttpPlan HttpRoutes::plan(const HttpHead& head, const HttpEndpoints& ends) const {
  HttpPlan plan{.request = request_of(head, ends, protection_.tls != nullptr)};
  plan.client = client_of(plan.request);
  const auto refused = [&](HttpResponse answer) {
    plan.route = nullptr;
    plan.answer = std::move(answer);
    return std::move(plan);
  };
  if (protection_.names) {
    if (auto no = wrong_host(head, names(), ends.local)) return refused(*std::move(no));
  }
  const std::string& path = plan.request.path;
  if (path.empty() || path.size() > static_cast<size_t>(limits::kHttpPath)) {
    return refused(http_error(414, "the path is empty, or has more than " +
                                       std::to_string(limits::kHttpPath) + " bytes"));
  }
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  std::string others;
  for (const Entry& entry : entries_) {
    std::smatch match;
    if (!path.starts_with(entry.beginning)) continue;
    if (!std::regex_match(path, match, entry.pattern)) continue;
    if (entry.route.method != method) {
      others += (others.empty() ? "" : ", ") + entry.route.method;
      continue;
    }
    plan.of = class_of(entry.route, Role::kAnyone);
    plan.ready = says_ready(entry.route.pattern);
    if (auto no = objection(head, &entry.route, plan)) return refused(*std::move(no));
    plan.request.captures.assign(std::next(match.begin()), match.end());
    plan.route = &entry.route;
    if (head.has_body() && method != "GET" && entry.route.body.read) {
      if (auto no = body_objection(head, plan)) return refused(*std::move(no));
    }
    return plan;
  }
  if (auto no = objection(head, nullptr, plan)) return refused(*std::move(no));
  if (others.empty()) return refused(http_error(404, "there is no " + path + " here"));
  return refused(http_error(405, path + " takes " + others + ", not " + head.method));
}

std::vector<std::string> HttpRoutes::names() const {
  std::vector<std::string> all = *protection_.names;
  if (protection_.tls) std::ranges::move(protection_.tls->hosts(), std::back_inserter(all));
  return all;
}

// `route` is null where there is nothing of this path.
std::optional<HttpResponse> HttpRoutes::objection(const HttpHead& head,
                                                  const HttpServer::Route* route,
                                                  HttpPlan& plan) const {
  const HttpPermission* const need = route ? &route->need : nullptr;
  if (Access* const access = protection_.access) {
    const std::string session(cookie_value(head.field("Cookie"), plan.request.cookie));
    Access::Verdict v =
        access->check(plan.request, std::string(head.field("Authorization")), need, session);
    plan.request.who = v.who;
    plan.client = client_of(plan.request);
    if (auto no = too_many(plan)) return no;
    if (v.refuse) return std::move(v.refuse);
    if (v.by_session) plan.request.session = session;
    if (route) plan.of = class_of(*route, v.role);
    plan.request.collection = std::move(v.collection);
  }
  return wrong_origin(head, {.by_session = !plan.request.session.empty(),
                             .of_anyone = need && need->role == Role::kAnyone,
                             .tls = protection_.tls != nullptr});
}

std::optional<HttpResponse> HttpRoutes::too_many(const HttpPlan& plan) const {
  if (is_health(plan.request.path) || plan.client.empty()) return std::nullopt;
  {
    const std::lock_guard lock(rates_->mutex);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    if (rates_->limiter.take(now, plan.client)) return std::nullopt;
  }
  HttpResponse later = http_error(429, fmt::format("{} asks more than {} times a second "
                                                   "(--http-rate)",
                                                   plan.client, protection_.rate));
  later.headers["Retry-After"] = fmt::format("{:.0f}", std::ceil(1 / protection_.rate));
  return later;
}

std::optional<HttpResponse> HttpRoutes::body_objection(const HttpHead& head, HttpPlan& plan) const {
  const HttpBody& rule = plan.route->body;
  plan.type = std::string(head.field("Content-Type"));
  plan.form = is_form(plan.type);
  if (plan.form && !rule.form) {
    return http_error(
        415, plan.request.path + " takes the bytes as they are (curl --data-binary), no form");
  }
  const std::string_view encoding = head.field("Content-Encoding");
  if (!encoding.empty() && encoding != "identity") {
    return http_error(415, plan.request.path + " takes bodies as they are, not in the encoding '" +
                               printable(encoding, 64) + "'");
  }
  plan.most = static_cast<uint64_t>(rule.most < 0 ? max_body_ : rule.most);
  plan.most_bytes = plan.most + (plan.form ? kFormExtra : 0);
  plan.comes = plan.most;
  if (head.length) {
    uint64_t bytes = 0;
    const char* const end = head.length->data() + head.length->size();
    if (std::from_chars(head.length->data(), end, bytes).ptr != end || bytes > plan.most_bytes) {
      return too_large(plan);
    }
    plan.comes = std::min(bytes, plan.most);
  }
  plan.reads = true;
  return std::nullopt;
}

void HttpRoutes::admit(HttpPlan& plan) const {
  plan.crowded = false;
  if (!plan.route || !plan.reads || !plan.route->body.admit) return;
  HttpAdmission admission = plan.route->body.admit(plan.request, static_cast<int64_t>(plan.comes));
  plan.held = std::move(admission.held);
  if (!admission.refuse) return;
  plan.answer = *std::move(admission.refuse);
  plan.crowded = admission.full;
  if (!plan.crowded) plan.route = nullptr;
}

std::optional<HttpResponse> HttpRoutes::objection(HttpPlan& plan, std::string_view so_far) {
  const HttpBegin& begin = plan.route->body.begin;
  if (!begin || plan.form || plan.begun || so_far.size() < kHttpBeginning) return std::nullopt;
  plan.begun = true;
  return begin(plan.request, so_far);
}

HttpResponse HttpRoutes::too_large(const HttpPlan& plan) {
  return http_error(413, "the body has more than " + std::to_string(plan.most) +
                             " bytes, the most " + plan.request.path + " takes");
}

HttpResponse HttpRoutes::answer(HttpPlan& plan) const {
  if (plan.form) {
    HttpResponse r = of_form(plan);
    if (r.status != 200) return r;
    if (plan.request.body.size() > plan.most) return too_large(plan);
  }
  return plan.route->audit.what.empty() ? plan.route->handle(plan.request)
                                        : recorded(*plan.route, plan.request);
}

HttpResponse HttpRoutes::recorded(const HttpServer::Route& route,
                                  const HttpRequest& request) const {
  AuditLog* const audit = protection_.audit;
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
  } catch (const std::exception&) {
    failed(500);
    throw;
  }
}

std::vector<std::string> HttpRoutes::needs() const {
  std::vector<std::string> all;
  for (const Entry& e : entries_) {
    std::string line =
        e.route.method + " " + e.route.pattern + ": " + std::string(name_of(e.route.need.role));
    if (e.route.need.scope == HttpScope::kPhotos) line += ", of photos";
    if (e.route.need.scope == HttpScope::kCollection) line += ", of a collection";
    if (e.route.need.task == HttpTask::kNamed) line += " and a task";
    if (!e.route.audit.what.empty()) line += ", recorded as " + e.route.audit.what;
    all.push_back(std::move(line));
  }
  return all;
}

}  // namespace ndtrain::ndp
