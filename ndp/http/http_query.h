// What stands in a request's query, behind the "?".
#pragma once

#include <cstdint>
#include <string>

#include "framework/core/status.h"
#include "ndp/http/http_server.h"

namespace ndtrain::ndp {

// `otherwise` where it is not given, or empty.
std::string query_text(const HttpRequest& request, const char* name,
                       std::string_view otherwise = "");

// From 1 to `most`; `usual` where it is not given. The Status says what was given, and may be.
Result<int64_t> query_count(const HttpRequest& request, const char* name, int64_t usual,
                            int64_t most);

}  // namespace ndtrain::ndp
