// Objects of a namespace as files in directories: what names have in common up to a '/' is a
// directory. An object whose name has an empty part ("a//b"), or goes on behind another's
// ("a.jpg/b.jpg"), is none: its directory lists it, and its entry says so, kUnsupported.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

class RadosTree {
 public:
  using Entries = std::map<std::string, Result<FileInfo>>;  // by name

  // `root` is the path of the directory that all of it is below.
  explicit RadosTree(std::string root) : root_(std::move(root)) { directories_[root_]; }

  // `name` below the root.
  void add(const std::string& name, Result<FileInfo> info);
  std::map<std::string, Entries> take() { return std::move(directories_); }  // by path

 private:
  const std::string root_;
  std::map<std::string, Entries> directories_;
};

FileInfo rados_directory(const std::string& path);
// 64 bits that are others for another text, and never 0.
uint64_t rados_inode(const std::string& text);

}  // namespace ndtrain::ndp
