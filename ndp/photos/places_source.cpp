#include "ndp/photos/places_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/core/limits.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

bool is_hidden(const std::string& path) {
  return path.starts_with('.') || path.find("/.") != std::string::npos;
}

std::vector<std::string> without_those_below(const std::vector<std::string>& places) {
  const std::set<std::string> all(places.begin(), places.end());
  std::vector<std::string> some;
  for (const std::string& place : all) {
    bool below = false;
    for (std::string up = parent_of(place); !up.empty() && !below; up = parent_of(up)) {
      below = all.contains(up);
    }
    if (!below && !is_hidden(place)) some.push_back(place);
  }
  return some;
}

}  // namespace

PlacesSource::PlacesSource(Fs& fs, std::string root, const std::vector<std::string>& places)
    : fs_(fs), root_(std::move(root)), places_(without_those_below(places)) {}

Result<PhotoPage> PlacesSource::list(const std::string& cursor, size_t limit) {
  if (cursor.empty()) {
    next_ = 0;
    directory_.reset();
  }
  PhotoPage page;
  while (page.photos.size() < limit && (directory_ || next_ < places_.size())) {
    const Status s = directory_ ? list_below(limit, page) : visit(places_[next_++], page);
    if (!s.ok()) return s;
  }
  if (directory_ || next_ < places_.size()) page.next = "more";
  return page;
}

// As DirectorySource does it: a place that is gone is not there, one that cannot be looked at is a
// problem.
Status PlacesSource::visit(const std::string& place, PhotoPage& page) {
  if (place.size() > static_cast<size_t>(limits::kPathBytes)) return {};
  const Result<FileInfo> info = fs_.info(join(root_, place));
  if (!info.ok()) {
    if (info.status().code() != Code::kNotFound) {
      page.problems.push_back({place, info.status().message()});
    }
    return {};
  }
  if (!info->is_directory) {
    if (format_of_extension(extension_of(place)) != PhotoFormat::kUnknown) {
      page.photos.push_back({place, info->size, info->mtime_ns, info->inode});
    }
    return {};
  }
  std::vector<FileInfo> above;
  for (std::string up = parent_of(place);; up = parent_of(up)) {
    const Result<FileInfo> directory = fs_.info(up.empty() ? root_ : join(root_, up));
    if (!directory.ok()) return {};
    above.push_back(*directory);
    if (up.empty()) break;
  }
  at_ = place;
  cursor_.clear();
  directory_ = std::make_unique<DirectorySource>(fs_, join(root_, place), std::move(above));
  return {};
}

Status PlacesSource::list_below(size_t limit, PhotoPage& page) {
  Result<PhotoPage> part = directory_->list(cursor_, limit - page.photos.size());
  if (!part.ok()) {  // it went away, or may not be read
    if (part.status().code() != Code::kNotFound) {
      page.problems.push_back({at_, part.status().message()});
    }
    directory_.reset();
    return {};
  }
  for (PhotoRef& p : part->photos) {
    p.path = join(at_, p.path);
    page.photos.push_back(std::move(p));
  }
  for (PhotoProblem& p : part->problems) {
    p.path = join(at_, p.path);
    page.problems.push_back(std::move(p));
  }
  cursor_ = part->next;
  if (cursor_.empty()) directory_.reset();
  return {};
}

Result<std::string> PlacesSource::open(const std::string& path) {
  return fs_.read(join(root_, path), limits::kPhotoFile);
}

}  // namespace ndtrain::ndp
