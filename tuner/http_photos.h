#pragma once

#include "tuner/http_api.h"

namespace ndtrain {

// Photos and thumbnails of the stores, handed on by the Tuner: who can reach it need not be able to
// reach them. docs/http.md.
std::vector<HttpServer::Route> photo_routes(const WithService& with);

}  // namespace ndtrain
