// Of the Tuners that train with this one: a route for people and tools, and what /metrics says.
#pragma once

#include <vector>

#include "ndp/http/http_server.h"
#include "ndp/http/metrics.h"
#include "tuner/group/tuner_members.h"

namespace ndtrain::tuner {
using namespace ndp;

HttpServer::Route members_route(const TunerMembers& members);

void add_metrics(const TunerMembers& members, MetricsText& to);

}  // namespace ndtrain::tuner
