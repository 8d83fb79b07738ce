// Which of a photo's labels is current.
#pragma once

#include <map>
#include <span>
#include <tuple>

#include "ndp/labels/label_types.h"

namespace ndtrain::ndp {

// A label as the database holds it; `seq` counts a photo's labels of a task from 1.
struct StoredLabel {
  int64_t seq = 0;
  LabelSource source = LabelSource::kModel;
  int64_t version = 0;  // 0: no model's
  int64_t class_id = 0;
  int64_t time = 0;
  bool current = false;
  double score = 0;  // of none: 0
};

// What a transaction changes: first flags, then new rows.
struct LabelWrites {
  struct Flag {
    int64_t photo;
    StoredLabel label;  // as it was
    bool current;
  };
  struct Row {
    const NewLabel* label;
    int64_t time;  // in place of the label's
    int64_t seq;
    bool current;
  };
  int64_t task = 0;
  LabelSource source = LabelSource::kModel;
  std::optional<int64_t> version;
  std::vector<Flag> flags;
  std::vector<Row> rows;
};

// The versions of a task in the order in which their labels count.
class VersionOrder {
 public:
  VersionOrder(std::vector<VersionInfo> newest_first, std::optional<int64_t> in_force);

  bool has(int64_t version) const { return ranks_.contains(version); }
  bool withdrawn(int64_t version) const { return ranks_.at(version) == 0; }

  // Of two labels of a photo the one with the greater rank is current, of equals the later one.
  using Rank = std::tuple<LabelSource, int64_t, int64_t>;
  Rank rank(LabelSource source, int64_t version, int64_t time) const {
    return {source, version == 0 ? 0 : ranks_.at(version), time};
  }
  Rank rank(const StoredLabel& l) const { return rank(l.source, l.version, l.time); }

  size_t above(int64_t version) const;  // how many versions' labels outrank this one's

  // The index of the label that is to be current; none if all are withdrawn.
  std::optional<size_t> best(std::span<const StoredLabel> labels) const;

 private:
  std::map<int64_t, int64_t> ranks_;  // 0: withdrawn
};

}  // namespace ndtrain::ndp
