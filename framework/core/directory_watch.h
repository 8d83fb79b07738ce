// Hears of changes below a directory, so that nobody has to walk through it all to find them. Paths
// are relative to it, parts separated by '/'. Names that start with a dot are not looked at. Links
// to directories are followed, but for those that lead back to one above them.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "framework/core/status.h"

namespace ndtrain {

// What may be other than it was.
struct DirectoryChanges {
  std::set<std::string> files;   // written to their end, put in place, or gone
  std::set<std::string> places;  // that came or went: directories with all that is below them
  bool all = false;              // anything

  bool empty() const { return files.empty() && places.empty() && !all; }
};

class DirectoryWatch {
 public:
  virtual ~DirectoryWatch() = default;
  // What was heard of since the last call; else waits for it, for so long at most, or until wake().
  // A directory in which nothing could be heard for a while is among the places, or all is. One
  // thread at a time.
  virtual DirectoryChanges wait(std::chrono::nanoseconds at_most) = 0;
  virtual void wake() = 0;  // ends a wait(), or the next; any thread
  // Why changes are missed, if they are, as of the last call of wait().
  virtual Status complete() const = 0;
};

// By the kernel (inotify), which hears of what this machine does, and nothing of what others do on
// a network file system.
std::unique_ptr<DirectoryWatch> watch_directory(const std::string& root);

// The name of the network file system that `directory` is on, or one that may be; "" for a disk of
// this machine.
std::string network_file_system(const std::string& directory);

}  // namespace ndtrain
