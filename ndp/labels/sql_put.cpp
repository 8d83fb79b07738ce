// How labels get in, and which of them is current.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

void check(const LabelBatch& batch) {
  if ((batch.source == LabelSource::kModel) != batch.version.has_value()) {
    throw Error("put_labels: a batch of source ", name_of(batch.source),
                batch.version ? " names a version" : " names no version",
                "; exactly model labels have one");
  }
  for (const NewLabel& label : batch.labels) {
    if (label.score && !std::isfinite(*label.score)) {
      throw Error("label: a score of ", *label.score);
    }
  }
}

// Decides photo by photo what a batch changes.
class Judge {
 public:
  Judge(const LabelBatch& batch, const VersionOrder& order) : batch_(batch), order_(order) {
    by_photo_.resize(batch.labels.size());
    std::iota(by_photo_.begin(), by_photo_.end(), 0);
    const auto photo = [&](size_t i) { return batch.labels[i].photo; };
    if (!std::ranges::is_sorted(by_photo_, {}, photo)) {
      std::ranges::stable_sort(by_photo_, {}, photo);
    }
    for (const size_t i : by_photo_) {
      if (photos_.empty() || photos_.back() != photo(i)) photos_.push_back(photo(i));
    }
    writes_.task = batch.task;
    writes_.source = batch.source;
    writes_.version = batch.version;
    writes_.rows.reserve(by_photo_.size());
  }

  const std::vector<int64_t>& photos() const { return photos_; }

  // Settles the photos for which their newest label is enough to know; returns the others.
  std::vector<int64_t> quick(std::span<const std::optional<StoredLabel>> newest) {
    std::vector<int64_t> hard;
    size_t at = 0;
    for (size_t p = 0; p < photos_.size(); ++p) {
      const size_t begin = at;
      while (at < by_photo_.size() && label(at).photo == photos_[p]) ++at;
      const bool easy = at - begin == 1 && (!newest[p] || replaces(*newest[p], label(begin)));
      if (!easy) {
        hard.push_back(photos_[p]);
        hard_.push_back({begin, at});
        continue;
      }
      if (newest[p]) writes_.flags.push_back({photos_[p], *newest[p], false});
      const NewLabel& l = label(begin);
      writes_.rows.push_back({&l, l.time, newest[p] ? newest[p]->seq + 1 : 1, true});
      ++report_.added;
      ++report_.current;
    }
    return hard;
  }

  void settle(std::vector<std::vector<StoredLabel>> held) {
    for (size_t h = 0; h < hard_.size(); ++h) settle(hard_[h].first, hard_[h].second, held[h]);
  }

  const LabelWrites& writes() const { return writes_; }
  const PutReport& report() const { return report_; }

 private:
  const NewLabel& label(size_t at) const { return batch_.labels[by_photo_[at]]; }
  VersionOrder::Rank rank(int64_t time) const {
    return order_.rank(batch_.source, batch_.version.value_or(0), time);
  }

  // A current label of a lesser version: were there one of this version, it would be current.
  bool replaces(const StoredLabel& newest, const NewLabel& l) const {
    return batch_.version && newest.current && newest.source == LabelSource::kModel &&
           newest.version != *batch_.version && order_.rank(newest) < rank(l.time);
  }

  // The time under which a label gets in; none if it says nothing new.
  std::optional<int64_t> time_of(std::span<const StoredLabel> held, const NewLabel& l) const {
    const StoredLabel* last = nullptr;
    for (const StoredLabel& h : held) {
      if (batch_.version ? h.version == *batch_.version : h.source == batch_.source) {
        if (batch_.version) return {};
        // Or an import of an older state, once more.
        if (!l.just_now && h.class_id == l.class_id && h.time == l.time) return {};
        if (!last || h.time >= last->time) last = &h;
      }
    }
    if (last && last->class_id == l.class_id) return {};
    if (!l.just_now || !last || last->time < l.time) return l.time;
    return last->time == INT64_MAX ? INT64_MAX : last->time + 1;
  }

  void settle(size_t begin, size_t end, std::vector<StoredLabel>& held) {
    const size_t before = held.size(), first_row = writes_.rows.size();
    constexpr size_t kNone = SIZE_MAX;
    size_t was = kNone;
    for (size_t i = 0; i < before; ++i) {
      if (held[i].current) was = i;
    }
    size_t current = was;
    for (size_t at = begin; at < end; ++at) {
      const NewLabel& l = label(at);
      const std::optional<int64_t> time = time_of(held, l);
      if (!time) continue;
      ++report_.added;
      held.push_back({.seq = held.empty() ? 1 : held.back().seq + 1,
                      .source = batch_.source,
                      .version = batch_.version.value_or(0),
                      .class_id = l.class_id,
                      .time = *time});
      if (current == kNone || rank(*time) >= order_.rank(held[current])) {
        ++report_.current;
        current = held.size() - 1;
      }
      writes_.rows.push_back({&l, *time, held.back().seq, false});
    }
    if (current == was) return;
    if (was != kNone) writes_.flags.push_back({label(begin).photo, held[was], false});
    writes_.rows[first_row + (current - before)].current = true;
  }

  const LabelBatch& batch_;
  const VersionOrder& order_;
  std::vector<size_t> by_photo_;                 // indexes of labels
  std::vector<int64_t> photos_;                  // each once
  std::vector<std::pair<size_t, size_t>> hard_;  // ranges of by_photo_
  LabelWrites writes_;
  PutReport report_;
};

}  // namespace

Result<PutReport> SqlLabels::put_labels(const LabelBatch& batch) {
  check(batch);
  return tables_->writing([&] {
    const VersionOrder order = tables_->version_order(batch.task);
    if (batch.version && !order.has(*batch.version)) {
      throw sql::Failure{Status(
          Code::kNotFound, "labels: the task has no version " + std::to_string(*batch.version))};
    }
    if (batch.version && order.withdrawn(*batch.version)) {
      throw sql::Failure{Status(
          Code::kCancelled, "labels: version " + std::to_string(*batch.version) + " was undone")};
    }
    Judge judge(batch, order);
    const std::vector<int64_t> hard =
        judge.quick(tables_->newest_labels(batch.task, judge.photos()));
    if (!hard.empty()) judge.settle(tables_->all_labels(batch.task, hard));
    tables_->write_counted(judge.writes());
    if (batch.source == LabelSource::kHuman) settle_issues(batch.task, judge.photos());
    return judge.report();
  });
}

}  // namespace ndtrain::ndp
