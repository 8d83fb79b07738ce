// The dashboard, a page that the program carries, and what it follows: docs/http.md.
#pragma once

#include "tuner/http/event_feed.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// All outlive the routes.
std::vector<HttpServer::Route> dashboard_routes(const WithService& with, EventFeed& feed,
                                                const Versions& versions);

// What people follow, into the feed; on the service's thread.
void put_events(EventFeed& feed, const TunerService& service, const Versions& versions);

}  // namespace ndtrain::tuner
