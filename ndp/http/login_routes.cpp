#include "ndp/http/login_routes.h"

#include "framework/core/json.h"

namespace ndtrain::ndp {
namespace {

HttpResponse said(const Json& json) { return {.body = json_text(json) + "\n"}; }

// Not by a script, not by pages of other sites, and in the clear only where the server is.
std::string cookie(const HttpRequest& r, const std::string& value, std::chrono::seconds life) {
  return r.cookie + "=" + value +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(life.count()) +
         (r.cookie.starts_with("__Host-") ? "; Secure" : "");
}

HttpResponse make_link(Access& access, const HttpRequest& r) {
  if (!r.session.empty()) {
    return http_error(403, "a browser's session makes no other: ask with the token itself");
  }
  // Where nobody needs a token, no browser does.
  if (r.who.empty()) return said({{"path", "/"}, {"seconds", 0}});
  const std::string code = access.make_login_code(r);
  if (code.empty()) return http_error(401, "the token of " + r.who + " was revoked just now");
  return said({{"path", "/login?code=" + code}, {"seconds", kLoginCode.count()}});
}

HttpResponse open_link(Access& access, const HttpRequest& r) {
  // A page that sends somebody here would choose as whom they are signed in.
  if (r.foreign) {
    return http_error(403, "a page of another site leads here: open the link by itself");
  }
  const auto code = r.query.find("code");
  if (code == r.query.end()) {
    return http_error(400, "?code= is missing: `ndtrain dashboard` makes a link that has one");
  }
  if (r.method == "HEAD") return {.type = "text/plain"};  // who only looks does not use it up
  const auto session = access.redeem(code->second, r);
  if (!session) {
    return http_error(401,
                      "this link is good once, for a minute, and here for the user who asked for "
                      "it; `ndtrain dashboard` makes another");
  }
  return {.status = 303,
          .type = "text/plain",
          .headers = {{"Location", "/"}, {"Set-Cookie", cookie(r, *session, kBrowserSession)}}};
}

HttpResponse leave(Access& access, const HttpRequest& r) {
  if (r.session.empty()) {
    return http_error(
        400, "no browser's session came with this; a token ends by `ndtrain token revoke`");
  }
  access.end_session(r.session);
  HttpResponse answer = said({{"ended", true}});
  answer.headers["Set-Cookie"] = cookie(r, "", std::chrono::seconds(0));
  return answer;
}

}  // namespace

std::vector<HttpServer::Route> login_routes(Access& access) {
  const HttpPermission any_token(Role::kViewer, HttpScope::kNone, HttpTask::kNone);
  return {{.method = "POST",
           .pattern = "/login",
           .need = any_token,
           .handle = [&access](const HttpRequest& r) { return make_link(access, r); },
           .audit = {.what = "login"}},
          {.method = "GET",
           .pattern = "/login",
           .need = Role::kAnyone,
           .handle = [&access](const HttpRequest& r) { return open_link(access, r); }},
          {.method = "POST",
           .pattern = "/logout",
           .need = any_token,
           .handle = [&access](const HttpRequest& r) { return leave(access, r); }},
          {.method = "GET",
           .pattern = "/session",
           .need = any_token,
           .handle = [](const HttpRequest& r) {
             return said(
                 {{"who", r.who}, {"collection", r.collection}, {"browser", !r.session.empty()}});
           }}};
}

}  // namespace ndtrain::ndp
