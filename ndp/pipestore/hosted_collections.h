// The collections of a PipeStore process, and which of them a request is of: the one that
// `collection` in its query names, else the only one, else the first that has the photo named by
// its path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ndp/http/http_server.h"
#include "ndp/pipestore/uploads.h"

namespace ndtrain::ndp {

class HostedCollections {
 public:
  explicit HostedCollections(std::vector<Uploads*> all) : all_(std::move(all)) {}

  // Null: `why` says what is wrong.
  Uploads* find(const HttpRequest& request, HttpResponse& why) const;
  int64_t most_bytes() const { return all_.front()->most_bytes(); }  // of a photo

 private:
  std::string where() const;

  const std::vector<Uploads*> all_;
};

// The handler of a route: f(uploads, request) of the collection meant.
template <typename F>
HttpHandler on_collection(std::shared_ptr<const HostedCollections> collections, F f) {
  return [collections = std::move(collections), f](const HttpRequest& request) {
    HttpResponse why;
    Uploads* const uploads = collections->find(request, why);
    return uploads ? f(*uploads, request) : why;
  };
}

}  // namespace ndtrain::ndp
