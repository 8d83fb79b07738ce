// What people and their tools ask of a Tuner over HTTP; docs/http.md lists it.
#pragma once

#include <functional>
#include <vector>

#include "framework/core/json_fwd.h"
#include "ndp/http/http_server.h"
#include "ndp/http/metrics.h"
#include "tuner/group/tuner_members.h"
#include "tuner/service/service.h"

namespace ndtrain::tuner {
using namespace ndp;

// As GET answers them; a job without its spec and result.
Json progress_json(const JobRecord& job, const TunerService& service);
Json to_json(const StoreRecord& store);

// Runs a function, which throws nothing, on the service's own thread and waits for it.
using WithService = std::function<HttpResponse(const std::function<HttpResponse(TunerService&)>&)>;

// What a store knows a request by that is made, by the same method, for who made this one
// (ndp/http/tickets.h); "" where nobody needs a token.
using TicketFor = std::function<std::string(const HttpRequest& request, const std::string& store,
                                            const std::string& path)>;

// Adds what /metrics says besides; on the service's own thread.
using MoreMetrics = std::function<void(MetricsText&)>;

// The version's whole model, in the ModelStore; on any thread. Throws Error where it is gone.
using WholeModel = std::function<Digest(const PublishedModel&)>;

std::vector<HttpServer::Route> tuner_routes(WithService with_service, ModelStore& models,
                                            Versions& versions, const TunerMembers& members,
                                            const WholeModel& whole_model, const MoreMetrics& more);

}  // namespace ndtrain::tuner
