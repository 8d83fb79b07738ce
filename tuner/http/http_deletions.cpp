#include "tuner/http/http_deletions.h"

#include "framework/core/json.h"
#include "tuner/http/http_named_photo.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

HttpResponse remove(TunerService& service, const Digest& photo) {
  try {
    const TunerService::Deletion d = service.delete_photos({&photo, 1});
    const Json json = {
        {"id", to_hex(photo)}, {"deleted", true}, {"told", d.told}, {"away", d.away}};
    return {.body = json_text(json) + "\n"};
  } catch (const Error& e) {
    return http_error(507, e.what());
  }
}

}  // namespace

HttpServer::Route photo_deletion(WithService with, std::function<LabelDb&()> labels) {
  return {"DELETE",
          "/photos/(.+)",
          {Role::kOperator, HttpScope::kCollection},
          [with, labels](const HttpRequest& request) {
            const Result<Digest> photo = own_photo(with, labels, request);
            if (!photo.ok()) return no_photo(photo.status());
            return with([&](TunerService& s) { return remove(s, *photo); });
          },
          {},
          {"deletion", [with, labels](const HttpRequest& request) {
             const Result<Digest> photo = own_photo(with, labels, request);
             return photo.ok() ? to_hex(*photo) : "";
           }}};
}

}  // namespace ndtrain::tuner
