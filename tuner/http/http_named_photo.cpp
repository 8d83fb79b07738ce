#include "tuner/http/http_named_photo.h"

#include <algorithm>
#include <optional>
#include <set>

#include "framework/core/text.h"
#include "ndp/http/http_query.h"

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

Result<std::set<std::string>> held_in(const WithService& with, const Digest& photo) {
  Result<std::set<std::string>> collections = Status(Code::kIo, "the Tuner stops");
  (void)with([&](const TunerService& service) {
    collections = service.collections_holding(photo);
    return HttpResponse();
  });
  return collections;
}

Status only_in(const WithService& with, const std::function<LabelDb&()>& labels,
               const Digest& photo, const std::string& collection) {
  Result<std::set<std::string>> all = held_in(with, photo);
  if (!all.ok()) return {Code::kIo, all.status().message()};
  try {
    const std::vector<std::vector<CollectedPath>> places =
        labels().places_of({&photo, 1}).or_throw();
    for (const CollectedPath& place : places.at(0)) all->insert(place.collection);
  } catch (const Error& e) {
    return {Code::kIo, e.what()};
  }
  const std::string shown = printable(collection, 256);
  if (!all->contains(collection)) {
    return {Code::kNotFound, "photo " + to_hex(photo) + " is not known in the collection " + shown};
  }
  if (all->size() == 1) return {};
  return {Code::kUnsupported, "photo " + to_hex(photo) + " is in other collections than " + shown +
                                  ", too, and would go from all of them: that takes a token of all "
                                  "collections, and a request that names none"};
}

}  // namespace

Result<Digest> named_photo(const WithService& with, const std::function<LabelDb&()>& labels,
                           const std::string& name) {
  Result<Digest> photo = named(labels, name);
  if (photo.status().code() != Code::kNotFound) return photo;
  if (const auto trashed = trashed_at(with, name)) return *trashed;
  return photo;
}

std::string only_collection_of(const HttpRequest& request) {
  return request.collection.empty() ? query_text(request, "collection") : request.collection;
}

Result<Digest> own_photo(const WithService& with, const std::function<LabelDb&()>& labels,
                         const HttpRequest& request) {
  Result<Digest> photo = named_photo(with, labels, request.captures.at(0));
  const std::string collection = only_collection_of(request);
  if (!photo.ok() || collection.empty()) return photo;
  const Status own = only_in(with, labels, *photo, collection);
  return own.ok() ? photo : own;
}

HttpResponse no_photo(const Status& why) {
  const int status = why.code() == Code::kNotFound      ? 404
                     : why.code() == Code::kUnsupported ? 403
                                                        : 503;
  return http_error(status, why.message());
}

}  // namespace ndtrain::tuner
