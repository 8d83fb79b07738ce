// What the Tuner's routes answer with, and what they read of a path.
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/json.h"
#include "ndp/http/http_server.h"

namespace ndtrain::tuner {

// Paths and a store's messages may be no UTF-8.
inline ndp::HttpResponse answer(const Json& json, int status = 200) {
  return {.status = status, .body = json_text_replacing(json) + "\n"};
}

// The number that stands in the path, of which the route's pattern takes no other.
inline uint64_t number(const ndp::HttpRequest& request, size_t capture = 0) {
  return std::stoull(request.captures.at(capture));
}

}  // namespace ndtrain::tuner
