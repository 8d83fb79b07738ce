#pragma once

#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// Versions over HTTP: docs/http.md. Keeps references.
std::vector<HttpServer::Route> version_routes(WithService with, const ModelStore& models,
                                              Versions& versions);

}  // namespace ndtrain::tuner
