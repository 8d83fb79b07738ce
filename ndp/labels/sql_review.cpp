// Which photos a person should look at, and what the answers say about a version.
#include <algorithm>
#include <cstring>
#include <queue>

#include "framework/core/rng.h"
#include "ndp/labels/label_row.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

struct Candidate {
  double key;
  Digest digest;
  int64_t photo;
  auto order() const { return std::tie(key, digest); }
};

// The `count` candidates with the smallest keys.
class Smallest {
 public:
  explicit Smallest(size_t count) : count_(count) {}

  void offer(const Candidate& c) {
    heap_.push(c);
    if (heap_.size() > count_) heap_.pop();
  }
  std::vector<Candidate> take() {
    std::vector<Candidate> sorted;
    for (; !heap_.empty(); heap_.pop()) sorted.push_back(heap_.top());
    std::ranges::reverse(sorted);
    return sorted;
  }

 private:
  struct Less {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.order() < b.order(); }
  };
  size_t count_;
  std::priority_queue<Candidate, std::vector<Candidate>, Less> heap_;
};

}  // namespace

Result<std::vector<ReviewPhoto>> SqlLabels::review(int64_t collection, int64_t task, int64_t count,
                                                   uint64_t seed) {
  if (count < 1) throw Error("review: ", count, " photos, at least 1 is needed");
  return tables_->reading([&] {
    const auto n = static_cast<size_t>(count), n_random = n - n / 2;
    Smallest drawn(n_random), uncertain(n);
    const Rng rng(seed, "review");
    int64_t after = 0;
    for (int64_t found = LabelTables::kPage; found == LabelTables::kPage;) {
      found = 0;
      tables_->rows(
          [&](const SqlRow& r) {
            ++found;
            after = r.integer(0);
            Candidate c{.key = 0, .digest = digest_from(r.bytes(1)), .photo = after};
            uint64_t index = 0;
            std::memcpy(&index, c.digest.data(), sizeof index);
            c.key = rng.uniform(index);
            drawn.offer(c);
            if (r.is_null(2)) return;
            c.key = r.real(2);
            uncertain.offer(c);
          },
          // The plus keeps SQLite from an index of current labels, which would be sorted by photo
          // for every page.
          "SELECT l.photo, ph.sha256, l.score FROM labels l JOIN photos ph ON ph.id = l.photo"
          " WHERE l.photo > ? AND l.task = ? AND +l.current = 1 AND l.source = 1"
          " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = l.photo AND p.collection = ?)"
          " ORDER BY l.photo LIMIT ?",
          after, task, collection, LabelTables::kPage);
    }
    std::vector<Candidate> chosen = drawn.take();
    const size_t at_random = chosen.size();
    for (const Candidate& c : uncertain.take()) {
      if (chosen.size() < n && std::ranges::count(chosen, c.photo, &Candidate::photo) == 0) {
        chosen.push_back(c);
      }
    }
    std::vector<ReviewPhoto> photos;
    for (const Candidate& c : chosen) {
      tables_->rows(
          [&](const SqlRow& r) {
            photos.push_back({.photo = c.photo,
                              .digest = c.digest,
                              .path = r.bytes(2),
                              .label = r.bytes(0),
                              .at_random = photos.size() < at_random});
            if (!r.is_null(1)) photos.back().score = r.real(1);
          },
          "SELECT c.name, l.score, (SELECT p.path FROM places p WHERE p.photo = l.photo"
          " AND p.collection = ? ORDER BY p.path LIMIT 1)"
          " FROM labels l JOIN classes c ON c.task = l.task AND c.id = l.class"
          " WHERE l.photo = ? AND l.task = ? AND l.current = 1",
          collection, c.photo, task);
    }
    return photos;
  });
}

Result<FieldAccuracy> SqlLabels::accuracy(int64_t collection, int64_t version) {
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(version);
    const std::string truths =
        " WHERE t.task = ? AND t.version IS NULL AND t.current = 1 AND t.source >= 3"
        " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = t.photo AND p.collection = ?)";
    const std::string from = " FROM labels t" + tables_->by_index("labels_version");
    FieldAccuracy accuracy;
    accuracy.truths = *tables_->integer("SELECT count(*)" + from + truths, task, collection);
    tables_->rows(
        [&](const SqlRow& r) {
          const int64_t n = r.integer(2), agree = r.integer(1) != 0 ? n : 0;
          accuracy.all.photos += n;
          accuracy.all.agree += agree;
          if (r.integer(0) == 0) return;
          accuracy.at_random.photos += n;
          accuracy.at_random.agree += agree;
        },
        "SELECT t.at_random, t.class = m.class, count(*)" + from +
            " JOIN labels m ON m.photo = t.photo AND m.task = t.task AND m.version = ?" + truths +
            " GROUP BY 1, 2",
        version, task, collection);
    return accuracy;
  });
}

}  // namespace ndtrain::ndp
