// Which photos of a collection are like another: each store is asked about its own, and what they
// say is merged. docs/http.md.
#pragma once

#include "ndp/labels/label_db.h"
#include "tuner/http/http_photos.h"

namespace ndtrain::tuner {
using namespace ndp;

// Of a file that is asked about.
inline constexpr int64_t kMostAskedAbout = int64_t{32} << 20;

std::vector<HttpServer::Route> similar_photo_routes(const WithService& with, const TrustOf& trust,
                                                    const TicketFor& ticket,
                                                    const std::function<LabelDb&()>& labels);

}  // namespace ndtrain::tuner
