// Where people upload photos who ask the Tuner: at the store that it sends them to or, who cannot
// reach a store, at the Tuner, which hands the photo on. docs/http.md.
#pragma once

#include "tuner/http/http_photos.h"

namespace ndtrain::tuner {
using namespace ndp;

// Of one photo that is handed on: as much as a store takes by default. Of all at a time.
inline constexpr int64_t kMostRelayed = int64_t{32} << 20;
inline constexpr int kRelayedAtOnce = 8;

std::vector<HttpServer::Route> placing_routes(const WithService& with, const TrustOf& trust,
                                              const TicketFor& ticket);

// Why a body that begins so is no photo: HttpBody::begin of routes that take one.
std::optional<HttpResponse> begins_as_no_photo(const HttpRequest& request,
                                               std::string_view beginning);

}  // namespace ndtrain::tuner
