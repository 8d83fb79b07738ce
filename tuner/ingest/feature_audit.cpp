#include "tuner/ingest/feature_audit.h"

#include <algorithm>
#include <span>

#include "ndp/jobs/features.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr uint32_t kRuns = 2;  // the validation's, and the first one

std::span<const std::byte> bytes_in(std::string_view row) { return std::as_bytes(std::span(row)); }

}  // namespace

FeatureAudit::FeatureAudit(const Manifest& manifest, What what, const std::vector<bool>& wanted)
    : manifest_(manifest), what_(std::move(what)) {
  for (const TensorType& t : what_.features) row_bytes_ += bytes_of_row(t);
  if (row_bytes_ > 0) draw(wanted, Rng(what_.seed, "feature audit"));
  for (const auto& [number, photo] : photos_) {
    for (const auto& [store, asker] : photo.askers) {
      of_store_[{store, photo.run}].push_back(number);
      ++pending_[{store, photo.run}];
    }
  }
}

void FeatureAudit::settled(uint32_t store, uint32_t run) {
  const auto at = pending_.find({store, run});
  if (--at->second == 0) pending_.erase(at);
}

// kOfStore photos of each store, each as likely as any other: the first ones stay or go as more
// come.
void FeatureAudit::draw(const std::vector<bool>& wanted, Rng rng) {
  std::map<uint32_t, std::vector<uint64_t>> drawn;
  std::map<uint32_t, uint64_t> seen;
  for (uint32_t run = 0; run <= manifest_.runs() && run < kRuns; ++run) {
    for (const uint64_t number : manifest_.run(run)) {
      const auto& holders = manifest_.entry(number).holders;
      if (holders.size() < 2 || !wanted.at(number)) continue;
      for (const uint32_t store : holders) {
        std::vector<uint64_t>& of_store = drawn[store];
        const uint64_t at = rng.next_below(++seen[store]);
        if (of_store.size() < kOfStore) {
          of_store.push_back(number);
        } else if (at < kOfStore) {
          of_store[at] = number;
        }
      }
    }
  }
  size_t bytes = 0;
  for (const auto& [store, numbers] : drawn) {
    for (const uint64_t number : numbers) {
      const Manifest::Entry& photo = manifest_.entry(number);
      const size_t row = row_bytes_ * (photo.run == 0 ? 1 : what_.views);
      if (bytes + kAskers * row > kHeldBytes) return;
      if (photos_.contains(number)) continue;
      bytes += kAskers * row;
      Photo& p = photos_[number];
      p.run = photo.run;
      p.askers[store] = {};
      std::vector<uint32_t> others(photo.holders.begin(), photo.holders.end());
      std::erase(others, store);
      while (!others.empty() && p.askers.size() < kAskers) {
        const auto one = others.begin() + static_cast<int64_t>(rng.next_below(others.size()));
        p.askers[*one] = {};
        others.erase(one);
      }
    }
  }
}

void FeatureAudit::ask(uint32_t store, uint32_t run, std::vector<uint64_t>& numbers) {
  const auto mine = of_store_.find({store, run});
  if (mine == of_store_.end()) return;
  for (const uint64_t number : mine->second) {
    Asker& asker = photos_.at(number).askers.at(store);
    if (asker.gone) continue;
    if (asker.asked) {  // its row is on the way, or here
      std::erase(numbers, number);
      continue;
    }
    asker.asked = true;
    if (!std::ranges::binary_search(numbers, number)) {
      numbers.insert(std::ranges::lower_bound(numbers, number), number);
    }
  }
}

bool FeatureAudit::awaits(uint32_t store, uint64_t number) const {
  const auto photo = photos_.find(number);
  if (photo == photos_.end()) return false;
  const auto asker = photo->second.askers.find(store);
  return asker != photo->second.askers.end() && asker->second.asked && !asker->second.answered &&
         !asker->second.gone;
}

void FeatureAudit::answer(uint32_t store, uint64_t number, std::string_view row) {
  if (!awaits(store, number)) return;
  Photo& photo = photos_.at(number);
  Asker& asker = photo.askers.at(store);
  asker.answered = true;
  asker.row = row;
  settled(store, photo.run);
  compare(number, photo);
}

void FeatureAudit::leave(uint32_t store) {
  for (uint32_t run = 0; run < kRuns; ++run) {
    const auto mine = of_store_.find({store, run});
    if (mine == of_store_.end()) continue;
    for (const uint64_t number : mine->second) leave(store, number);
  }
}

void FeatureAudit::leave(uint32_t store, uint64_t number) {
  const auto photo = photos_.find(number);
  if (photo == photos_.end() || !photo->second.askers.contains(store)) return;
  Asker& asker = photo->second.askers.at(store);
  if (asker.answered || asker.gone) return;  // and compared, maybe
  asker.gone = true;
  settled(store, photo->second.run);
  compare(number, photo->second);
}

std::set<std::pair<uint32_t, uint32_t>> FeatureAudit::pending() const {
  std::set<std::pair<uint32_t, uint32_t>> all;
  for (const auto& [store_run, photos] : pending_) all.insert(store_run);
  return all;
}

// Once all have answered who will.
void FeatureAudit::compare(uint64_t number, Photo& photo) {
  for (const auto& [store, asker] : photo.askers) {
    if (!asker.answered && !asker.gone) return;
  }
  for (auto a = photo.askers.begin(); a != photo.askers.end(); ++a) {
    for (auto b = std::next(a); b != photo.askers.end(); ++b) {
      if (!a->second.answered || !b->second.answered) continue;
      ++compared_;
      const double apart = difference(photo.run, a->second.row, b->second.row);
      if (apart <= kTolerance) {
        agrees_[a->first].insert(b->first);
        agrees_[b->first].insert(a->first);
      } else {
        differing_.push_back({.a = a->first, .b = b->first, .photo = number, .difference = apart});
      }
    }
  }
  for (auto& [store, asker] : photo.askers) asker.row.clear();
}

double FeatureAudit::difference(uint32_t run, std::string_view theirs,
                                std::string_view ours) const {
  NumericsCheck check(what_.features);
  const size_t rows = run == 0 ? 1 : what_.views;
  if (theirs.size() != rows * row_bytes_ || ours.size() != theirs.size()) {
    throw Error("feature audit: rows of ", theirs.size(), " and ", ours.size(), " bytes, not of ",
                rows * row_bytes_);
  }
  for (size_t i = 0; i < rows; ++i) {
    check.add(bytes_in(theirs.substr(i * row_bytes_, row_bytes_)),
              bytes_in(ours.substr(i * row_bytes_, row_bytes_)));
  }
  return check.difference();
}

// The one that nobody agrees with, where somebody agrees with the other.
std::optional<uint32_t> FeatureAudit::culprit(const Finding& f) const {
  const bool a = agrees_.contains(f.a), b = agrees_.contains(f.b);
  if (a == b) return std::nullopt;
  return a ? f.b : f.a;
}

std::optional<FeatureAudit::Finding> FeatureAudit::finding(bool last) {
  for (size_t i = 0; i < differing_.size(); ++i) {
    Finding f = differing_[i];
    f.store = culprit(f);
    if (!f.store && !last) continue;
    differing_.clear();  // the job ends with it
    return f;
  }
  return std::nullopt;
}

}  // namespace ndtrain::tuner
