// How a browser is let in: `POST /login` with a token gives the path of a link that is good once,
// `GET /login?code=` opens it and sets a cookie, `POST /logout` ends that.
#pragma once

#include <vector>

#include "ndp/http/access.h"

namespace ndtrain::ndp {

// `access` must outlive the server.
std::vector<HttpServer::Route> login_routes(Access& access);

}  // namespace ndtrain::ndp
