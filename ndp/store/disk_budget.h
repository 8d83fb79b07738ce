// How much a store may still write: within its own budget, and never into its volume's last 5 %.
#pragma once

#include <string>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// Not thread-safe.
class DiskBudget {
 public:
  // `budget` 0: a tenth of the volume that holds `directory`.
  static Result<DiskBudget> open(Fs& fs, std::string directory, int64_t budget);

  // Bytes that may be written below `directory` by whoever has no budget of its own; at least 1.
  static Result<int64_t> default_room(Fs& fs, const std::string& directory);

  int64_t bytes() const { return budget_; }
  // Bytes that may be written on top of the `used` that are there. Asks the volume only now and
  // then, and always when it matters for `wanted`.
  Result<int64_t> room(int64_t used, int64_t wanted);
  // The same, looking only at the volume.
  Result<int64_t> room_on_volume(int64_t wanted);
  void wrote(int64_t bytes) { since_ += bytes; }
  void freed() { measured_ = false; }

 private:
  DiskBudget(Fs& fs, std::string directory) : fs_(&fs), directory_(std::move(directory)) {}
  Status measure();

  Fs* fs_;
  std::string directory_;
  int64_t budget_ = 0;
  bool measured_ = false;
  int64_t spare_ = 0;  // free bytes before the last 5 %, when last asked
  int64_t since_ = 0;  // written since then
};

}  // namespace ndtrain::ndp
