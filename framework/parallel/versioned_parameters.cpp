#include "framework/parallel/versioned_parameters.h"

#include <algorithm>

namespace ndtrain {

VersionedParameters::VersionedParameters(float* first, int64_t size, int versions,
                                         const Device& device)
    : size_(size), device_(device), ring_{first} {
  if (versions < 2) throw Error("parameters have at least 2 versions, not ", versions);
  for (int i = 1; i < versions; ++i) {
    own_.emplace_back(device, TensorType{DType::kF32, {size}});
    ring_.push_back(static_cast<float*>(own_.back().data()));
  }
  holders_.resize(ring_.size());
}

size_t VersionedParameters::place(int64_t version) const {
  return static_cast<size_t>(version) % ring_.size();
}

bool VersionedParameters::is_there(int64_t version) const {
  const int64_t last = begun_ ? newest_ + 1 : newest_;
  return version >= 0 && version <= last && version > last - std::ssize(ring_);
}

const float* VersionedParameters::values(int64_t version) const {
  if (!is_there(version)) {
    throw Error("version ", version, " of the parameters is not there: the newest is ", newest_);
  }
  return ring_[place(version)];
}

void VersionedParameters::hold(int64_t version) {
  (void)values(version);
  ++holders_[place(version)];
}

void VersionedParameters::give_back(int64_t version) {
  (void)values(version);
  int& holders = holders_[place(version)];
  if (holders == 0) throw Error("version ", version, " of the parameters is not held");
  --holders;
}

float* VersionedParameters::next() {
  const size_t at = place(newest_ + 1);
  if (!begun_ && holders_[at] > 0) {
    throw Error("version ", newest_ + 1, " of the parameters has no place: version ",
                newest_ + 1 - std::ssize(ring_), " is held");
  }
  begun_ = true;
  return ring_[at];
}

void VersionedParameters::publish(ParameterRange range) {
  if (!begun_) throw Error("no version of the parameters is begun");
  if (range.size() <= 0) return;
  const auto after = std::ranges::lower_bound(published_, range.begin, {}, &ParameterRange::begin);
  const bool twice = (after != published_.end() && after->begin < range.end) ||
                     (after != published_.begin() && (after - 1)->end > range.begin);
  if (twice || range.begin < 0 || range.end > size_) {
    throw Error("elements ", range.begin, " to ", range.end, " of version ", newest_ + 1,
                twice ? " are published twice" : " are not there");
  }
  published_.insert(after, range);
  std::vector<ParameterRange> joined;
  for (const ParameterRange r : published_) {
    if (!joined.empty() && joined.back().end == r.begin) {
      joined.back().end = r.end;
    } else {
      joined.push_back(r);
    }
  }
  published_ = std::move(joined);
  if (published_.front() != ParameterRange{0, size_}) return;
  published_.clear();
  begun_ = false;
  ++newest_;
}

bool VersionedParameters::published(ParameterRange range, int64_t version) const {
  if (!is_there(version)) return false;
  if (version <= newest_) return true;
  return std::ranges::any_of(
      published_, [&](ParameterRange r) { return r.begin <= range.begin && range.end <= r.end; });
}

void VersionedParameters::restart() {
  if (begun_ || std::ranges::any_of(holders_, [](int n) { return n > 0; })) {
    throw Error("versions of the parameters are begun or held: they cannot begin anew");
  }
  float* const newest = ring_[place(newest_)];
  if (newest != ring_[0]) {
    device_.download(ring_[0], newest, static_cast<size_t>(size_) * sizeof(float));
  }
  newest_ = 0;
}

}  // namespace ndtrain
