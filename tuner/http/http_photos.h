#pragma once

#include "ndp/http/http_client.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// Photos and thumbnails of the stores, handed on by the Tuner: who can reach it need not be able to
// reach them. A store is asked by `trust`, with a ticket for this one request. docs/http.md.
using TrustOf = std::function<HttpTrust(std::string ticket)>;
std::vector<HttpServer::Route> photo_routes(const WithService& with, const TrustOf& trust,
                                            const TicketFor& ticket);

}  // namespace ndtrain::tuner
