// Tasks over HTTP: which there are, and taking one away; docs/http.md.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ndp/labels/label_db.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// `labels` opens the database, or has it; throws Error. `watched`: the collections in which a rule
// watches the task; on the service's own thread.
std::vector<HttpServer::Route> task_routes(
    WithService with, const Versions& versions, std::function<LabelDb&()> labels,
    std::function<std::vector<std::string>(const std::string& task)> watched);

}  // namespace ndtrain::tuner
