// What people and their tools ask of a PipeStore about photos; docs/http.md lists it.
#pragma once

#include <memory>
#include <vector>

#include "ndp/http/http_server.h"
#include "ndp/pipestore/hosted_collections.h"

namespace ndtrain::ndp {

// Of one collection each; they must outlive the server. A request is of the one that `collection`
// in its query names, else of the only one, else of the first that has the photo.
std::vector<HttpServer::Route> upload_routes(std::vector<Uploads*> uploads);

// Of requests whose body is a photo: as many at once as the Uploads meant has places for.
HttpAdmit photo_admission(std::shared_ptr<const HostedCollections> collections);
// And refused before it is there, where it begins as no photo does.
HttpBegin photo_beginning(std::shared_ptr<const HostedCollections> collections);

}  // namespace ndtrain::ndp
