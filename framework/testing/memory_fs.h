#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/rng.h"

namespace ndtrain {

// A file system in memory that a test can break. It keeps two states: what running programs see,
// and what a disk is bound to keep: file contents as of File::sync, names as of sync_directory on
// the directory that holds them (make_directories is durable at once). "a", "/a" and "./a" are one
// path. Thread-safe. Files must not outlive it.
//
// A mutating call is an open that may create, append, truncate, sync, rename, remove,
// make_directories or sync_directory; each is counted, failed or not.
class MemoryFs final : public Fs {
 public:
  // What a crash leaves of that which was not synced: nothing; all names, but no contents; all.
  enum class Survives { kNothing, kNames, kAll };

  MemoryFs();
  ~MemoryFs() override;

  int64_t mutating_calls() const;
  // The n-th mutating call from now (1: the next one) fails, once. An append then writes half.
  void fail_call(int64_t n, Code code = Code::kIo);
  // The machine dies in the n-th mutating call from now: that call and all later ones, reads too,
  // fail until crash(). An append in which it dies writes half.
  void die_in_call(int64_t n);
  // What is left after power comes back. Files open before the crash answer kIo from now on.
  void crash(Survives survives = Survives::kNothing);
  // The same with chance: each directory old or new, each file with a part of what was not synced,
  // which may end in zeros.
  void crash(Rng& rng);
  // Bytes of file contents that fit; an append beyond writes what fits and answers kNoSpace.
  void set_capacity(int64_t bytes);

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directories(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<Space> space(const std::string& path) override;

 private:
  struct Node;
  struct Place;
  class OpenFile;

  // All under mutex_.
  Status alive(const std::string& path) const;
  Status begin_mutation(const std::string& path, bool* struck = nullptr);
  std::shared_ptr<Node> find(const std::string& path) const;  // null if there is none
  Result<Place> place_of(const std::string& path) const;
  std::shared_ptr<Node> make_node(bool directory);
  void power_up();
  int64_t used() const;

  mutable std::mutex mutex_;
  uint64_t inodes_ = 0;  // before root_, which is the first
  std::shared_ptr<Node> root_;
  int64_t capacity_;
  int64_t calls_ = 0, fail_at_ = 0, die_at_ = 0;
  Code fail_code_ = Code::kIo;
  bool dead_ = false;
  int64_t epoch_ = 0;  // crashes so far
};

}  // namespace ndtrain
