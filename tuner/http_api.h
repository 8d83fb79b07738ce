// What people and their tools ask of a Tuner over HTTP; docs/http.md lists it.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ndp/http/http_server.h"
#include "tuner/service.h"

namespace ndtrain {

// As GET answers them; a job without its spec and result.
nlohmann::ordered_json progress_json(const JobRecord& job, const TunerService& service);
nlohmann::ordered_json to_json(const StoreRecord& store);

// Runs a function on the service's own thread and waits for it. Throws what it throws.
using WithService = std::function<HttpResponse(const std::function<HttpResponse(TunerService&)>&)>;

std::vector<HttpServer::Route> tuner_routes(WithService with_service, ModelStore& models,
                                            const Versions& versions);

}  // namespace ndtrain
