// What a job leaves in its directory, for people: its curves, its report, its trace. docs/http.md.
#pragma once

#include "framework/core/fs.h"
#include "ndp/http/http_server.h"

namespace ndtrain::tuner {
using namespace ndp;

// `jobs` is the directory of the Tuner's jobs; `fs` outlives the routes.
std::vector<HttpServer::Route> job_file_routes(Fs& fs, const std::string& jobs);

}  // namespace ndtrain::tuner
