#include "framework/sparse/sync/site_gradient.h"

#include <utility>

#include "framework/core/stopwatch.h"
#include "framework/sparse/sync/whole_gradient.h"

namespace ndtrain {
namespace {

constexpr int64_t kBucket = 1 << 20;  // values that travel at once, or a slot's

}  // namespace

SiteGradient::SiteGradient(const Trainer::Shared& shared, Communicator& communicator,
                           const Sites& sites, std::string shared_memory)
    : shared_(shared),
      communicator_(communicator),
      members_(sites.members()),
      shared_memory_(std::move(shared_memory)) {
  const std::span<const ParameterSlot> slots = shared.parameters.slots();
  bucket_of_.resize(slots.size());
  for (size_t s = slots.size(); s-- > 0;) {
    if (buckets_.empty() || buckets_.back().range.size() >= kBucket) {
      buckets_.push_back({.range = {slots[s].range.end, slots[s].range.end}});
    }
    buckets_.back().range.begin = slots[s].range.begin;
    ++buckets_.back().slots;
    bucket_of_[s] = buckets_.size() - 1;
  }
}

float* SiteGradient::own(const Bucket& bucket) const {
  return shared_.gradients.sums()[0] + bucket.range.begin;
}

void SiteGradient::enqueue() {
  if (members_.size() > 1 && !shared_memory_.empty() && !std::exchange(has_asked_, true)) {
    memory_ = SiteMemory::share(communicator_, members_, shared_.parameters.size(), shared_memory_);
  }
  is_under_way_ = true;
  parts_ = 0;
  for (Bucket& b : buckets_) {
    b.missing = b.slots;
    if (members_.size() == 1) continue;
    CommOp op{.group = members_, .name = "gradients of a site"};
    if (!memory_) {
      op.kind = CommOp::Kind::kAllReduce;
      op.data = {own(b), static_cast<size_t>(b.range.size())};
    }
    b.sum = communicator_.enqueue(std::move(op));
  }
  if (!memory_) return;
  // Behind all of the others, which come under the backward pass.
  for (Bucket& b : buckets_) {
    b.added_up = communicator_.enqueue({.group = members_, .name = "parts of a site's sums"});
  }
}

void SiteGradient::ready(size_t slot) {
  Bucket& b = buckets_[bucket_of_[slot]];
  if (--b.missing == 0) add_up(b);
  while (memory_ && parts_ < buckets_.size() && communicator_.done(buckets_[parts_].sum)) {
    add_up_part(buckets_[parts_]);
  }
}

void SiteGradient::end(double& waited_s) {
  if (!std::exchange(is_under_way_, false)) return;
  for (Bucket& b : buckets_) {
    if (std::exchange(b.missing, 0) > 0) add_up(b);
  }
  if (members_.size() == 1) return;
  const Stopwatch waits(waited_s);
  if (!memory_) {
    for (const Bucket& b : buckets_) communicator_.wait(b.sum);
    return;
  }
  while (parts_ < buckets_.size()) {
    communicator_.wait(buckets_[parts_].sum);
    add_up_part(buckets_[parts_]);
  }
  for (const Bucket& b : buckets_) {
    communicator_.wait(b.added_up);
    memory_->take(b.range, own(b));
  }
}

// What this rank has of it goes to the others.
void SiteGradient::add_up(const Bucket& bucket) {
  const std::vector<float*>& sums = shared_.gradients.sums();
  for (size_t tree = 1; tree < sums.size(); ++tree) {
    add_to({own(bucket), static_cast<size_t>(bucket.range.size())},
           sums[tree] + bucket.range.begin);
  }
  if (members_.size() == 1) return;
  if (memory_) memory_->lay_down(bucket.range, own(bucket));
  communicator_.release(bucket.sum);
}

void SiteGradient::add_up_part(const Bucket& bucket) {
  memory_->add_up(bucket.range, own(bucket));
  communicator_.release(bucket.added_up);
  ++parts_;
}

}  // namespace ndtrain
