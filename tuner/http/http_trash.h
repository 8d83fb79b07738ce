#pragma once

#include <functional>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/labels/label_db.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// Into the trash, what is in it, and back: docs/http.md. `labels` and `clock` outlive the routes.
std::vector<HttpServer::Route> trash_routes(const WithService& with,
                                            const std::function<LabelDb&()>& labels, Clock& clock);

}  // namespace ndtrain::tuner
