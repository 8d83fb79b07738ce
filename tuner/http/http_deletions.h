#pragma once

#include <functional>
#include <string>

#include "ndp/labels/label_db.h"
#include "tuner/http/http_api.h"

namespace ndtrain::tuner {
using namespace ndp;

// The digest of a photo that is named by it, or by the path that `labels` or the trash knows it by.
// kNotFound; kIo: the database is away.
Result<Digest> named_photo(const WithService& with, const std::function<LabelDb&()>& labels,
                           const std::string& name);

// DELETE of photos by their digest, or by the path that `labels` knows them by: docs/http.md.
HttpServer::Route photo_deletion(WithService with, std::function<LabelDb&()> labels);

}  // namespace ndtrain::tuner
