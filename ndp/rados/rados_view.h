// A namespace of a pool as one host sees it: which objects it lists, and what was read of them.
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ndp/rados/hosted_groups.h"
#include "ndp/rados/rados_fs.h"

namespace ndtrain::ndp {

class RadosView {
 public:
  RadosView(std::unique_ptr<ObjectPool> pool, std::string name, std::string nspace,
            RadosScope scope, Clock& clock)
      : pool_(std::move(pool)),
        name_(std::move(name)),
        nspace_(std::move(nspace)),
        scope_(std::move(scope)),
        clock_(clock) {}

  // As RadosFs has it.
  Result<bool> look();
  uint64_t gained() const;
  void add_reads(std::vector<RadosReads>& to) const;

  Result<std::vector<std::string>> list();
  std::vector<Result<ObjectFacts>> stat(std::span<const std::string> names);
  std::vector<Result<ObjectDescription>> describe(std::span<const std::string> names) {
    return pool_->describe(names);
  }
  // Which leave what the objects' files say as it is. kUnavailable also for one that was written
  // just now (is_settled()).
  std::vector<Status> set_attributes(std::vector<NewAttributes> all);
  // Where the same bytes are there already, it is as good: an attempt whose answer was lost may be
  // repeated. kExists: others are.
  Status add(const std::string& name, std::string_view bytes);
  Status remove(const std::string& name) { return pool_->remove(name); }
  // Counted where a file is begun.
  Result<ObjectBytes> read(const std::string& name, int64_t offset, int64_t size, uint64_t version);

 private:
  struct Count {
    uint64_t objects = 0, bytes = 0;
  };

  Status follow_map();
  std::vector<uint32_t> groups() const;  // under the mutex
  Result<bool> holds(const std::string& name, std::string_view bytes);
  void count(const std::string& name, bool first, size_t bytes);

  const std::unique_ptr<ObjectPool> pool_;
  const std::string name_, nspace_;
  const RadosScope scope_;
  Clock& clock_;
  std::mutex following_;      // one thread asks for a map
  mutable std::mutex mutex_;  // of what follows
  HostedGroups groups_;
  std::optional<std::vector<uint32_t>> listed_;  // groups, last time
  uint64_t gained_ = 0;                          // as of then
  std::map<std::pair<int, bool>, Count> reads_;  // by OSD, and whether it was here
};

}  // namespace ndtrain::ndp
