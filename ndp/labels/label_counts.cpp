#include "ndp/labels/label_counts.h"

#include <algorithm>

namespace ndtrain::ndp {
namespace {

int64_t beginning(int64_t time, int64_t seconds) {
  const int64_t into = ((time % seconds) + seconds) % seconds;  // of a time before 1970 too
  return time - into;
}

void cover(int64_t since, int64_t until, std::span<const int64_t> lengths,
           std::vector<CountedSpans>& spans) {
  if (since >= until) return;
  const int64_t seconds = lengths.front(), last = beginning(until, seconds);
  int64_t first = beginning(since, seconds);
  if (first < since) first += seconds;
  if (first >= last) return cover(since, until, lengths.subspan(1), spans);
  spans.push_back({seconds, first, last});
  cover(since, first, lengths.subspan(1), spans);
  cover(last, until, lengths.subspan(1), spans);
}

}  // namespace

void LabelCountChanges::add_label(int64_t collection, int64_t task, const StoredLabel& label,
                                  int64_t n) {
  LabelCountKey key{.collection = collection, .task = task, .version = label.version};
  const auto count = [&] { labels_.push_back({key, {n, static_cast<double>(n) * label.score}}); };
  count();
  if (label.version == 0) return;
  key.class_id = label.class_id;
  for (const int64_t seconds : kCountedSeconds) {
    key.seconds = seconds;
    key.since = beginning(label.time, seconds);
    count();
  }
}

LabelCountRows LabelCountChanges::take_labels() {
  std::ranges::stable_sort(labels_, {}, &LabelCountRows::value_type::first);
  LabelCountRows rows;
  for (const auto& [key, count] : labels_) {
    if (rows.empty() || rows.back().first != key) {
      rows.emplace_back(key, count);
      continue;
    }
    rows.back().second.labels += count.labels;
    rows.back().second.scores += count.scores;
  }
  labels_.clear();
  return rows;
}

std::vector<CountedSpans> counted_spans(int64_t since, int64_t until) {
  std::vector<CountedSpans> spans;
  cover(since, until, kCountedSeconds, spans);
  return spans;
}

}  // namespace ndtrain::ndp
