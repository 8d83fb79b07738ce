#pragma once

#include "ndp/http/http_client.h"
#include "tuner/http_api.h"

namespace ndtrain {

// Photos and thumbnails of the stores, handed on by the Tuner: who can reach it need not be able to
// reach them. A store is asked in the name of who asks here. docs/http.md.
using TrustOf = std::function<HttpTrust(const HttpRequest&)>;
std::vector<HttpServer::Route> photo_routes(const WithService& with, const TrustOf& trust);

}  // namespace ndtrain
