// How many labels a collection has, by version, class and time, kept as labels and photos come and
// go: who watches a collection of 10^7 photos asks every few seconds, and reads none of its labels.
//
// Counted are current labels of photos that are in the collection, each once:
//   label_counts  (collection, task, version or 0, seconds, since, class) -> labels, sum of scores
// in time spans of several lengths, which begin at multiples of it; a span of 0 seconds is all
// time, and there all classes are one, 0. Of labels without a version there is only that.
//   photo_counts  collection -> photos that are in it
// Rows of nothing are not kept. One transaction changes labels and counts.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ndp/labels/version_order.h"

namespace ndtrain::ndp {

// Longest first; each is a multiple of the next.
inline constexpr std::array<int64_t, 3> kCountedSeconds = {4096, 64, 1};

struct LabelCountKey {
  int64_t collection = 0, task = 0, version = 0, seconds = 0, since = 0, class_id = 0;
  auto operator<=>(const LabelCountKey&) const = default;
};

struct LabelCount {
  int64_t labels = 0;
  double scores = 0;  // a label without one counts as 0
};

using LabelCountRows = std::vector<std::pair<LabelCountKey, LabelCount>>;  // rising, each key once

// What a transaction adds to the counts, and takes from them.
class LabelCountChanges {
 public:
  // `n`: 1 or -1.
  void add_photo(int64_t collection, int64_t n) { photos_[collection] += n; }
  void add_label(int64_t collection, int64_t task, const StoredLabel& label, int64_t n);

  const std::map<int64_t, int64_t>& photos() const { return photos_; }  // by collection
  LabelCountRows take_labels();                                         // once

 private:
  std::map<int64_t, int64_t> photos_;
  LabelCountRows labels_;  // as they came
};

// Whole spans of one length: from `since` until before `until`.
struct CountedSpans {
  int64_t seconds = 0, since = 0, until = 0;
  bool operator==(const CountedSpans&) const = default;
};

// These are together the time from `since` until before `until`, in the longest spans there are.
std::vector<CountedSpans> counted_spans(int64_t since, int64_t until);

}  // namespace ndtrain::ndp
