#include "ndp/s3/listed_versions.h"

#include <utility>

namespace ndtrain::ndp {

void ListedVersions::put(const std::string& path, Version version) {
  const std::optional<Version> known = find(path);
  if (known && known->etag == version.etag && version.id.empty()) version.id = known->id;
  if (newest_.size() >= most_ && !newest_.contains(path)) older_ = std::exchange(newest_, {});
  newest_.insert_or_assign(path, std::move(version));
}

std::optional<ListedVersions::Version> ListedVersions::find(const std::string& path) {
  for (const Versions* versions : {&newest_, &older_}) {
    if (const auto found = versions->find(path); found != versions->end()) return found->second;
  }
  return std::nullopt;
}

void ListedVersions::forget(const std::string& path) {
  newest_.erase(path);
  older_.erase(path);
}

}  // namespace ndtrain::ndp
