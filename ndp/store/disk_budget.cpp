#include "ndp/store/disk_budget.h"

#include <algorithm>

namespace ndtrain::ndp {
namespace {

// Others write to the volume too, so we never rely on an old figure for long.
constexpr int64_t kMeasureEvery = int64_t{64} << 20;

}  // namespace

Result<DiskBudget> DiskBudget::open(Fs& fs, std::string directory, int64_t budget) {
  DiskBudget b(fs, std::move(directory));
  Result<Space> space = fs.space(b.directory_);
  if (!space.ok()) return space.status();
  b.budget_ = budget > 0 ? budget : space->total / 10;
  return b;
}

Result<int64_t> DiskBudget::default_room(Fs& fs, const std::string& directory) {
  Result<DiskBudget> budget = open(fs, directory, 0);
  if (!budget.ok()) return budget.status();
  const Result<int64_t> room = budget->room(0, 1);
  if (!room.ok()) return room.status();
  return std::max<int64_t>(*room, 1);
}

Status DiskBudget::measure() {
  Result<Space> space = fs_->space(directory_);
  if (!space.ok()) return space.status();
  spare_ = space->free - space->total / 20;
  since_ = 0;
  measured_ = true;
  return {};
}

Result<int64_t> DiskBudget::room_on_volume(int64_t wanted) {
  if (!measured_ || since_ + wanted > std::min(spare_ / 2, kMeasureEvery)) {
    if (Status s = measure(); !s.ok()) return s;
  }
  return spare_ - since_;
}

Result<int64_t> DiskBudget::room(int64_t used, int64_t wanted) {
  Result<int64_t> volume = room_on_volume(wanted);
  if (!volume.ok()) return volume.status();
  return std::min(*volume, budget_ - used);
}

}  // namespace ndtrain::ndp
