// What people and their tools ask of a Tuner over HTTP; docs/http.md lists it.
#pragma once

#include <functional>
#include <vector>

#include "framework/core/json_fwd.h"
#include "ndp/http/http_server.h"
#include "tuner/group/tuner_members.h"
#include "tuner/service/service.h"

namespace ndtrain::tuner {
using namespace ndp;

// As GET answers them; a job without its spec and result.
Json progress_json(const JobRecord& job, const TunerService& service);
Json to_json(const StoreRecord& store);

// Runs a function on the service's own thread and waits for it. Throws what it throws.
using WithService = std::function<HttpResponse(const std::function<HttpResponse(TunerService&)>&)>;

// What a store knows a request by that is made, by the same method, for who made this one
// (ndp/http/tickets.h); "" where nobody needs a token.
using TicketFor = std::function<std::string(const HttpRequest& request, const std::string& store,
                                            const std::string& path)>;

std::vector<HttpServer::Route> tuner_routes(WithService with_service, ModelStore& models,
                                            Versions& versions, const TunerMembers& members,
                                            const TicketFor& ticket);

}  // namespace ndtrain::tuner
