#include "ndp/jobs/photo_pattern.h"

#include <fnmatch.h>

#include <algorithm>

namespace ndtrain::ndp {
namespace {

class Matching {
 public:
  Matching(Fs& fs, const std::string& pattern) : fs_(fs) {
    for (size_t begin = 0; begin <= pattern.size();) {
      const size_t slash = std::min(pattern.find('/', begin), pattern.size());
      if (slash > begin) parts_.push_back(pattern.substr(begin, slash - begin));
      begin = slash + 1;
    }
    expand(pattern.starts_with('/') ? "/" : "", 0);
  }

  std::vector<std::string> found;

 private:
  void expand(const std::string& at, size_t part) {
    if (part == parts_.size()) return found.push_back(at);
    const std::string& name = parts_[part];
    if (name == "**") {
      expand_below(at, part);
    } else if (!is_pattern(name)) {
      if (fs_.exists(join(at, name))) expand(join(at, name), part + 1);
    } else {
      for (const std::string& entry : names_in(at)) {
        if (fnmatch(name.c_str(), entry.c_str(), FNM_PERIOD) == 0) {
          expand(join(at, entry), part + 1);
        }
      }
    }
  }

  // Here, and in every directory below.
  void expand_below(const std::string& at, size_t part) {
    const Result<FileInfo> info = fs_.info(at.empty() ? "." : at);
    if (!info.ok() || !info->is_directory || std::ranges::count(above_, info->inode) > 0) return;
    if (part + 1 < parts_.size()) expand(at, part + 1);
    above_.push_back(info->inode);
    for (const std::string& entry : names_in(at)) {
      const std::string path = join(at, entry);
      const Result<FileInfo> below = fs_.info(path);
      if (entry.starts_with('.') || !below.ok()) continue;
      if (below->is_directory) {
        expand_below(path, part);
      } else if (part + 1 == parts_.size()) {
        found.push_back(path);
      }
    }
    above_.pop_back();
  }

  std::vector<std::string> names_in(const std::string& at) const {
    const Result<std::vector<std::string>> names = fs_.list(at.empty() ? "." : at);
    return names.ok() ? *names : std::vector<std::string>();
  }

  Fs& fs_;
  std::vector<std::string> parts_;
  std::vector<uint64_t> above_;  // inodes of the directories that ** has gone through
};

}  // namespace

bool is_pattern(std::string_view name) { return name.find_first_of("*?[") != name.npos; }

std::vector<std::string> matching_paths(Fs& fs, const std::string& pattern) {
  std::vector<std::string> found = Matching(fs, pattern).found;
  std::ranges::sort(found);
  const auto twice = std::ranges::unique(found);
  found.erase(twice.begin(), twice.end());
  return found;
}

}  // namespace ndtrain::ndp
