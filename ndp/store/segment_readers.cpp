#include "ndp/store/segment_readers.h"

#include <algorithm>

#include "ndp/store/segment_format.h"

namespace ndtrain::ndp {

Result<std::shared_ptr<File>> SegmentReaders::get(uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (const auto it = kept_.find(number); it != kept_.end()) return it->second;
  if (const auto it = open_.find(number); it != open_.end()) return it->second;
  Result<std::unique_ptr<File>> file =
      fs_.open(join(directory_, segment_name(number)), Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  while (order_.size() >= kMaxOpen) {
    open_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(number);
  return open_[number] = std::shared_ptr<File>(std::move(*file));
}

void SegmentReaders::keep_open(const std::vector<uint32_t>& numbers) {
  for (const uint32_t number : numbers) {
    Result<std::shared_ptr<File>> file = get(number);
    if (!file.ok()) continue;
    const std::lock_guard lock(mutex_);
    kept_[number] = std::move(*file);
  }
}

void SegmentReaders::forget(uint32_t number) {
  const std::lock_guard lock(mutex_);
  kept_.erase(number);
  if (open_.erase(number) > 0) order_.erase(std::find(order_.begin(), order_.end(), number));
}

}  // namespace ndtrain::ndp
