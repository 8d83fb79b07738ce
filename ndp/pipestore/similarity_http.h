#pragma once

#include "ndp/http/http_server.h"
#include "ndp/pipestore/similar_photos.h"

namespace ndtrain::ndp {

// What a store answers of which photos are like another: embeddings, of its photos and of files,
// and the photos nearest to one. A Tuner asks them, and merges what its stores say; docs/http.md.
// Of one collection each, as upload_routes() has them.
std::vector<HttpServer::Route> similarity_routes(const std::vector<SimilarPhotos*>& similar);

}  // namespace ndtrain::ndp
