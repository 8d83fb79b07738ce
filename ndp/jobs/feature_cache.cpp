#include "ndp/jobs/feature_cache.h"

#include "ndp/jobs/in_turn.h"

namespace ndtrain::ndp {

FeatureCache::FeatureCache(Fs& fs, const Clock& clock, const std::string& cache, std::string who)
    : fs_(fs), clock_(clock), directory_(join(cache, "features")), who_(std::move(who)) {}

Status FeatureCache::try_to_write() {
  store_.reset();
  auto store = SegmentStore::open(fs_, clock_, directory_, {.who = who_});
  writes_ = store.ok();
  if (writes_) store_ = std::move(*store);
  return store.status();
}

void FeatureCache::open() {
  const Status s = try_to_write();
  if (s.code() != Code::kExists) return s.or_throw();
  store_ = SegmentStore::open_to_read(fs_, clock_, directory_).or_throw();
}

bool FeatureCache::open_to_write(Progress& progress) {
  const Status s = take_in_turn([this] { return try_to_write(); },
                                "what it extracts will serve here too; another --cache does not "
                                "have to wait",
                                progress);
  if (s.code() == Code::kCancelled) return false;
  s.or_throw();
  return true;
}

void FeatureCache::stop_writing(const Digest& group) {
  store_->pin(group);
  if (!std::exchange(writes_, false)) return;
  store_->stop_writing().or_throw();
}

void FeatureCache::close() {
  if (store_) store_->close().or_throw();
  store_.reset();
  writes_ = false;
}

}  // namespace ndtrain::ndp
