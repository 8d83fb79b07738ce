#include "tuner/http/http_dashboard.h"

#include "framework/core/json.h"
#include "tuner/http/dashboard_files.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kJobs = 20;  // that are followed, the newest

// Nothing but what the program itself serves; photos come as blobs, because a picture's address
// cannot carry a token.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

HttpResponse page(std::string_view name) {
  for (const DashboardFile& file : dashboard_files()) {
    if (file.name != name) continue;
    return {.body = std::string(file.content),
            .type = type_of(name),
            .headers = {{"Content-Security-Policy", kPolicy}, {"Cache-Control", "no-cache"}}};
  }
  return http_error(404, "the dashboard has no file " + std::string(name));
}

}  // namespace

void put_events(EventFeed& feed, const TunerService& service, const Versions& versions) {
  Json stores = Json::array(), jobs = Json::array(), aliases = Json::object();
  for (const StoreRecord& s : service.stores()) {
    stores.push_back(to_json(s));
    if (s.here) stores.back().erase("last_seen");  // it changes all the time
  }
  const auto& all = service.jobs();
  for (auto job = all.rbegin(); job != all.rend() && jobs.size() < kJobs; ++job) {
    jobs.push_back(progress_json(job->second, service));
  }
  const auto put = [&](const char* event, const Json& json) {
    feed.put(event, json_text_replacing(json));
  };
  put("stores", stores);
  put("jobs", jobs);
  for (const std::string& task : versions.tasks()) aliases[task] = versions.aliases(task);
  put("versions", aliases);
}

std::vector<HttpServer::Route> dashboard_routes(const WithService& with, EventFeed& feed,
                                                const Versions& versions) {
  using Request = const HttpRequest&;
  // The page itself says nothing; what it asks for needs the reader's token.
  return {
      {"GET", "/", Role::kAnyone, [](Request) { return page("index.html"); }},
      {"GET", "/dashboard/([a-z_.]+)", Role::kAnyone,
       [](Request r) { return page(r.captures.at(0)); }},
      {"GET", "/events", Role::kViewer,
       [with, &feed, &versions](Request) {
         HttpResponse now = with([&](TunerService& s) {
           put_events(feed, s, versions);
           return HttpResponse();
         });
         return now.status == 200 ? feed.follow() : now;
       }},
  };
}

}  // namespace ndtrain::tuner
