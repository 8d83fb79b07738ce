#include "ndp/pipestore/cache_writer.h"

#include <algorithm>

#include "framework/core/log.h"
#include "ndp/engine/crops.h"

namespace ndtrain::ndp {

CacheWriter::~CacheWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
}

void CacheWriter::put(const Digest& photo, std::shared_ptr<OnlineModel> model,
                      OnlineLabeler::Labelled labelled) {
  {
    const std::lock_guard lock(mutex_);
    if (items_.size() >= most_) {
      ++dropped_;
      return;
    }
    items_.push_back({photo, std::move(model), std::move(labelled)});
  }
  ready_.notify_one();
}

int64_t CacheWriter::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void CacheWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [&] { return stopping_ || !items_.empty(); });
    if (items_.empty()) return;
    const Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    write(item);
    lock.lock();
  }
}

void CacheWriter::write(const Item& item) {
  const Network& n = *item.model->network;
  Status s;
  if (const std::string& feature = item.labelled.feature; !feature.empty()) {
    s = FeatureRows(&cache_, n.features()).keep(item.photo, std::as_bytes(std::span(feature)));
  }
  if (const std::string& pixels = item.labelled.crop; s.ok() && !pixels.empty()) {
    Image crop(n.preprocess().img_size, n.preprocess().img_size);
    std::ranges::copy(pixels, crop.rgb.begin());
    s = CropCache(cache_, n.preprocess(), compress_crops_).keep(item.photo, crop);
  }
  if (!s.ok() && !full_) log::warn("crops and features are not kept: {}", s.message());
  full_ = !s.ok();
}

}  // namespace ndtrain::ndp
