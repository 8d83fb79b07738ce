// Which photo a request is about, and whether it may be.
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

// That the request is about alone: the one that its token is for, else the one that it names; "":
// all of them.
std::string only_collection_of(const HttpRequest& request);

// The photo that the request's first capture names, for what happens to it in every store. Where
// the request is about one collection, kNotFound: it is not in that; and kUnsupported: it is in
// another, too, by the label database or what stores have said.
Result<Digest> own_photo(const WithService& with, const std::function<LabelDb&()>& labels,
                         const HttpRequest& request);
// What is answered where there is none.
HttpResponse no_photo(const Status& why);

}  // namespace ndtrain::tuner
