// What people and their tools ask of a PipeStore about photos; docs/http.md lists it.
#pragma once

#include <vector>

#include "ndp/http/http_server.h"
#include "ndp/pipestore/uploads.h"

namespace ndtrain::ndp {

// `uploads` must outlive the server.
std::vector<HttpServer::Route> upload_routes(Uploads& uploads);

}  // namespace ndtrain::ndp
