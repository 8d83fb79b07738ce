#include "ndp/pipestore/hosted_collections.h"

#include "framework/core/text.h"

namespace ndtrain::ndp {

Uploads* HostedCollections::find(const HttpRequest& request, HttpResponse& why) const {
  const auto meant = request.query.find("collection");
  if (meant != request.query.end()) {
    for (Uploads* u : all_) {
      if (u->collection() == meant->second) return u;
    }
    why = http_error(400, "photos " + where() + ", not in " + printable(meant->second, 256));
    return nullptr;
  }
  if (all_.size() == 1) return all_.front();
  if (request.captures.empty()) {
    why = http_error(400, "photos " + where() + ": ?collection=NAME says which is meant");
    return nullptr;
  }
  const Digest id = digest_from_hex(request.captures.front());
  for (Uploads* u : all_) {
    if (u->find(id).ok()) return u;
  }
  return all_.front();  // which says that it is not there
}

std::string HostedCollections::where() const {
  if (all_.size() == 1) return "of this store are in the collection " + all_[0]->collection();
  std::string text;
  for (const Uploads* u : all_) text += (text.empty() ? "" : ", ") + u->collection();
  return "here are in the collections " + text;
}

}  // namespace ndtrain::ndp
