// The dashboard, a page that the program carries, and what it follows: docs/http.md.
#pragma once

#include "tuner/http/event_feed.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// `jobs` is the directory of the Tuner's jobs. All outlive the routes.
std::vector<HttpServer::Route> dashboard_routes(const WithService& with, Fs& fs,
                                                const std::string& jobs, EventFeed& feed,
                                                const Versions& versions);

// What people follow, into the feed; on the service's thread.
void put_events(EventFeed& feed, const TunerService& service, const Versions& versions);

}  // namespace ndtrain::tuner
