#include "tuner/http/http_deletions.h"

#include <algorithm>
#include <optional>

#include "framework/core/json.h"
#include "framework/core/text.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<Digest> at_path(LabelDb& db, const std::string& path) {
  const Result<std::vector<std::string>> collections = db.collections();
  if (!collections.ok()) return collections.status();
  for (const std::string& name : *collections) {
    const Result<int64_t> collection = db.collection(name);
    if (!collection.ok()) return collection.status();
    const Result<int64_t> photo = db.find_photo(*collection, path);
    if (photo.ok()) return db.digest_of(*photo);
    if (photo.status().code() != Code::kNotFound) return photo.status();
  }
  return Status(Code::kNotFound, "no photo is known at " + path +
                                     "; name it by its SHA-256, or as STORE/path, as ndtrain "
                                     "labels query shows it");
}

// Named by its digest, or by its path.
Result<Digest> named(const std::function<LabelDb&()>& labels, const std::string& name) {
  if (is_digest(name)) return digest_from_hex(name);
  try {
    return at_path(labels(), name);
  } catch (const Error& e) {
    return Status(Code::kIo, e.what());
  }
}

std::optional<Digest> trashed_at(const WithService& with, const std::string& name) {
  std::optional<Digest> found;
  (void)with([&](const TunerService& service) {
    for (const auto& [photo, entry] : service.trash().photos()) {
      if (std::ranges::find(entry.paths, printable(name)) != entry.paths.end()) found = photo;
    }
    return HttpResponse();
  });
  return found;
}

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

Result<Digest> named_photo(const WithService& with, const std::function<LabelDb&()>& labels,
                           const std::string& name) {
  Result<Digest> photo = named(labels, name);
  if (photo.status().code() != Code::kNotFound) return photo;
  if (const auto trashed = trashed_at(with, name)) return *trashed;
  return photo;
}

HttpServer::Route photo_deletion(WithService with, std::function<LabelDb&()> labels) {
  return {"DELETE",
          "/photos/(.+)",
          {Role::kOperator, HttpScope::kPhotos},
          [with, labels](const HttpRequest& request) {
            const Result<Digest> photo = named_photo(with, labels, request.captures.at(0));
            if (!photo.ok()) {
              return http_error(photo.status().code() == Code::kNotFound ? 404 : 503,
                                photo.status().message());
            }
            return with([&](TunerService& s) { return remove(s, *photo); });
          },
          {},
          {"deletion", [with, labels](const HttpRequest& request) {
             const Result<Digest> photo = named_photo(with, labels, request.captures.at(0));
             return photo.ok() ? to_hex(*photo) : "";
           }}};
}

}  // namespace ndtrain::tuner
