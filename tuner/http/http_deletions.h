#pragma once

#include <functional>

#include "ndp/labels/label_db.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// DELETE of photos by their digest, or by the path that `labels` knows them by: docs/http.md.
HttpServer::Route photo_deletion(WithService with, std::function<LabelDb&()> labels);

}  // namespace ndtrain::tuner
