#include "ndp/rados/rados_tree.h"

#include <cstring>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/text.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kNameOfEmptyPart = "/";  // the name that an empty part is listed by

Status is_no_path(const std::string& path, const char* why) {
  return {Code::kUnsupported, printable(path, 1024) + ": " + why + "; rename the objects"};
}

}  // namespace

uint64_t rados_inode(const std::string& text) {
  const Digest digest = sha256(text);
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number | 1;
}

FileInfo rados_directory(const std::string& path) {
  return {.inode = rados_inode(path), .is_directory = true};
}

void RadosTree::add(const std::string& name, Result<FileInfo> info) {
  std::string directory = root_;
  for (size_t begin = 0;;) {
    const size_t end = name.find('/', begin);
    const std::string part = name.substr(begin, end - begin);
    Entries& entries = directories_[directory];
    if (part.empty()) {
      const Status why =
          is_no_path(join(directory, kNameOfEmptyPart), "names with an empty part are no paths");
      entries.insert_or_assign(kNameOfEmptyPart, why);
      return;
    }
    const std::string path = join(directory, part);
    const bool last = end == std::string::npos;
    const auto [at, fresh] = entries.emplace(part, last ? info : rados_directory(path));
    if (!fresh && (last || !at->second.ok() || !at->second->is_directory)) {
      at->second = is_no_path(path, "an object whose name others go on behind is no photo");
      return;
    }
    if (last) return;
    directory = path;
    begin = end + 1;
  }
}

}  // namespace ndtrain::ndp
