#include "framework/sparse/sync/site_gradient.h"

#include <utility>

#include "framework/core/stopwatch.h"
#include "framework/sparse/sync/whole_gradient.h"

namespace ndtrain {
namespace {

constexpr int64_t kBucket = 1 << 20;  // values that travel at once, or a slot's

}  // namespace

SiteGradient::SiteGradient(const Trainer::Shared& shared, Communicator& communicator,
                           const Sites& sites)
    : shared_(shared), communicator_(communicator), members_(sites.members()) {
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

void SiteGradient::enqueue() {
  for (Bucket& b : buckets_) {
    b.missing = b.slots;
    if (members_.size() == 1) continue;
    CommOp op{.kind = CommOp::Kind::kAllReduce, .group = members_, .name = "gradients of a site"};
    op.data = {shared_.gradients.sums()[0] + b.range.begin, static_cast<size_t>(b.range.size())};
    b.sum = communicator_.enqueue(std::move(op));
  }
}

void SiteGradient::ready(size_t slot) {
  Bucket& b = buckets_[bucket_of_[slot]];
  if (--b.missing == 0) add_up(b);
}

void SiteGradient::end(double& waited_s) {
  for (Bucket& b : buckets_) {
    if (std::exchange(b.missing, 0) > 0) add_up(b);
  }
  if (members_.size() == 1) return;
  const Stopwatch waits(waited_s);
  for (const Bucket& b : buckets_) communicator_.wait(b.sum);
}

// What this rank has of it goes to the others.
void SiteGradient::add_up(const Bucket& bucket) {
  const ParameterRange range = bucket.range;
  const std::vector<float*>& sums = shared_.gradients.sums();
  const std::span<float> own(sums[0] + range.begin, static_cast<size_t>(range.size()));
  for (size_t tree = 1; tree < sums.size(); ++tree) {
    add_to(own, sums[tree] + range.begin);
  }
  if (members_.size() > 1) communicator_.release(bucket.sum);
}

}  // namespace ndtrain
