#include "ndp/photos/photo_source.h"

#include <algorithm>

#include "framework/core/limits.h"
#include "ndp/photos/decode.h"

namespace ndtrain::ndp {
namespace {

// Inodes are unique only within a volume, whose number FileInfo lacks; with time and size a mistake
// is out of the question.
bool same_directory(const FileInfo& a, const FileInfo& b) {
  return a.inode == b.inode && a.mtime_ns == b.mtime_ns && a.size == b.size;
}

}  // namespace

Status DirectorySource::enter(std::string path, const FileInfo& info) {
  for (const Level& above : levels_) {
    if (same_directory(above.info, info)) {
      return {Code::kIo, full(path) + ": a link back to " + full(above.path) + ", not followed"};
    }
  }
  for (const FileInfo& above : above_) {
    if (same_directory(above, info)) {
      return {Code::kIo, full(path) + ": a link back to a directory above, not followed"};
    }
  }
  Result<std::vector<std::string>> names = fs_.list(full(path));
  if (!names.ok()) return names.status();
  levels_.push_back({.path = std::move(path), .info = info, .names = std::move(*names)});
  return {};
}

// Puts the walk behind `cursor`, which may have been removed meanwhile.
Status DirectorySource::seek(const std::string& cursor, PhotoPage& page) {
  levels_.clear();
  const Result<FileInfo> root = fs_.info(root_);
  if (!root.ok()) return root.status();
  if (Status s = enter("", *root); !s.ok()) return s;
  for (size_t begin = 0; begin < cursor.size();) {
    const size_t slash = std::min(cursor.find('/', begin), cursor.size());
    const std::string part = cursor.substr(begin, slash - begin);
    Level& level = levels_.back();
    const auto at = std::lower_bound(level.names.begin(), level.names.end(), part);
    level.next = static_cast<size_t>(at - level.names.begin());
    if (at == level.names.end() || *at != part) return {};
    ++level.next;
    if (slash == cursor.size()) return {};
    const std::string path = join(level.path, part);
    const Result<FileInfo> info = fs_.info(full(path));
    if (!info.ok() || !info->is_directory) return {};
    if (Status s = enter(path, *info); !s.ok()) {
      if (s.code() == Code::kUnavailable) return s;
      page.problems.push_back({path, s.message()});
      return {};
    }
    begin = slash + 1;
  }
  return {};
}

Status DirectorySource::visit(const std::string& path, PhotoPage& page) {
  if (path.size() > static_cast<size_t>(limits::kPathBytes)) {
    page.problems.push_back({path, "the path is too long"});
    return {};
  }
  const Result<FileInfo> info = fs_.info(full(path));
  const bool photo = format_of_extension(extension_of(path)) != PhotoFormat::kUnknown;
  Status problem = info.status();
  if (problem.code() == Code::kNotFound)
    return {};  // gone since it was listed, or a link to nothing
  if (info.ok() && info->is_directory) problem = enter(path, *info);
  if (problem.code() == Code::kUnavailable) return problem;
  if (!problem.ok()) {
    page.problems.push_back({path, problem.message()});
  } else if (photo && !info->is_directory) {
    page.photos.push_back({path, info->size, info->mtime_ns, info->inode});
  }
  return {};
}

Result<PhotoPage> DirectorySource::list(const std::string& cursor, size_t limit) {
  Result<PhotoPage> page = walk(cursor, limit);
  stands_at_ = page.ok() ? page->next : "";
  return page;
}

Result<PhotoPage> DirectorySource::walk(const std::string& cursor, size_t limit) {
  PhotoPage page;
  if (cursor.empty() || cursor != stands_at_) {
    if (Status s = seek(cursor, page); !s.ok()) return s;
  }
  while (!levels_.empty() && page.photos.size() < limit) {
    Level& level = levels_.back();
    if (level.next == level.names.size()) {
      levels_.pop_back();
      continue;
    }
    const std::string& name = level.names[level.next++];
    if (name.starts_with('.')) continue;
    if (Status s = visit(join(level.path, name), page); !s.ok()) return s;
  }
  if (!levels_.empty()) page.next = page.photos.back().path;
  return page;
}

Result<std::string> DirectorySource::open(const std::string& path) {
  return fs_.read(full(path), limits::kPhotoFile);
}

}  // namespace ndtrain::ndp
