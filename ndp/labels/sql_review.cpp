// Which photos a person should look at, and what the answers say about a version.
#include <algorithm>
#include <cstring>
#include <map>
#include <queue>
#include <utility>

#include "framework/core/rng.h"
#include "ndp/labels/label_row.h"
#include "ndp/labels/sql_labels.h"

namespace ndtrain::ndp {
namespace {

// What people and imports say now, as t, of a task and a collection that are bound.
constexpr const char* kTruths =
    " WHERE t.task = ? AND t.version IS NULL AND t.current = 1 AND t.source >= 3"
    " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = t.photo AND p.collection = ?)";

struct ReviewCandidate {
  double key;
  Digest digest;
  int64_t photo;
  auto order() const { return std::tie(key, digest); }
};

// The `count` candidates with the smallest keys.
class Smallest {
 public:
  explicit Smallest(size_t count) : count_(count) {}

  void offer(const ReviewCandidate& c) {
    heap_.push(c);
    if (heap_.size() > count_) heap_.pop();
  }
  std::vector<ReviewCandidate> take() {
    std::vector<ReviewCandidate> sorted;
    for (; !heap_.empty(); heap_.pop()) sorted.push_back(heap_.top());
    std::ranges::reverse(sorted);
    return sorted;
  }

 private:
  struct Less {
    bool operator()(const ReviewCandidate& a, const ReviewCandidate& b) const {
      return a.order() < b.order();
    }
  };
  size_t count_;
  std::priority_queue<ReviewCandidate, std::vector<ReviewCandidate>, Less> heap_;
};

// As many as `count` leaves room for beside those that were `drawn`. What has been called something
// else since has no issue.
std::vector<ReviewPhoto> photos_with_issues(LabelTables& tables, int64_t collection, int64_t task,
                                            int64_t drawn, int64_t count) {
  std::vector<ReviewPhoto> photos;
  tables.rows(
      [&](const SqlRow& r) {
        photos.push_back({.photo = r.integer(0),
                          .digest = digest_from(r.bytes(1)),
                          .path = r.bytes(2),
                          .label = r.bytes(3),
                          .score = r.real(4),
                          .suggested = r.bytes(5),
                          .suggested_score = r.real(6)});
      },
      "SELECT i.photo, ph.sha256, (SELECT p.path FROM places p WHERE p.photo = i.photo"
      " AND p.collection = ? ORDER BY p.path LIMIT 1),"
      " c.name, i.score, s.name, i.suggested_score"
      " FROM label_issues i JOIN photos ph ON ph.id = i.photo"
      " JOIN labels l ON l.photo = i.photo AND l.task = i.task AND l.class = i.class"
      " JOIN classes c ON c.task = i.task AND c.id = i.class"
      " JOIN classes s ON s.task = i.task AND s.id = i.suggested"
      " WHERE i.task = ? AND i.answered = 0 AND l.current = 1 AND l.source >= 2"
      " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = i.photo AND p.collection = ?)"
      " ORDER BY i.score / i.suggested_score, ph.sha256 LIMIT ?",
      collection, task, collection, count - drawn);
  return photos;
}

}  // namespace

Status SqlLabels::put_issues(int64_t task, std::span<const int64_t> looked_at,
                             std::span<const LabelIssue> issues) {
  return tables_
      ->writing([&] {
        for (const int64_t photo : looked_at) {
          tables_->run(
              "DELETE FROM label_issues WHERE task = ? AND photo = ? AND (answered = 0 OR NOT"
              " EXISTS (SELECT 1 FROM labels l WHERE l.photo = label_issues.photo AND"
              " l.task = label_issues.task AND l.class = label_issues.class AND l.current = 1))",
              task, photo);
        }
        for (const LabelIssue& i : issues) {
          tables_->run(
              "INSERT INTO label_issues"
              " (task, photo, class, score, suggested, suggested_score, answered)"
              " VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (task, photo) DO NOTHING",
              task, i.photo, i.class_id, i.score, i.suggested, i.suggested_score);
        }
        return true;
      })
      .status();
}

// A confirmed label keeps its class: remembered, so that it is not asked about again.
void SqlLabels::settle_issues(int64_t task, std::span<const int64_t> photos) {
  if (!tables_->integer("SELECT 1 FROM label_issues WHERE answered = 0 LIMIT 1")) return;
  for (const int64_t photo : photos) {
    tables_->run("UPDATE label_issues SET answered = 1 WHERE task = ? AND photo = ?", task, photo);
  }
}

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
            ReviewCandidate c{.key = 0, .digest = digest_from(r.bytes(1)), .photo = after};
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
    std::vector<ReviewCandidate> chosen = drawn.take();
    const size_t at_random = chosen.size();
    std::vector<ReviewPhoto> photos =
        photos_with_issues(*tables_, collection, task, std::ssize(chosen), count);
    const size_t issues = photos.size();
    for (const ReviewCandidate& c : uncertain.take()) {
      if (issues + chosen.size() < n &&
          std::ranges::count(chosen, c.photo, &ReviewCandidate::photo) == 0)
        chosen.push_back(c);
    }
    for (const ReviewCandidate& c : chosen) {
      tables_->rows(
          [&](const SqlRow& r) {
            photos.push_back({.photo = c.photo,
                              .digest = c.digest,
                              .path = r.bytes(2),
                              .label = r.bytes(0),
                              .at_random = photos.size() < issues + at_random});
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
    const std::string truths(kTruths);
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
        "SELECT CASE WHEN t.at_random = 1 AND t.time >= v.created THEN 1 ELSE 0 END,"
        " t.class = m.class, count(*)" +
            from + " JOIN labels m ON m.photo = t.photo AND m.task = t.task AND m.version = ?" +
            " JOIN versions v ON v.id = m.version" + truths + " GROUP BY 1, 2",
        version, task, collection);
    return accuracy;
  });
}

Result<std::vector<ConfusedPhotos>> SqlLabels::confusion(int64_t collection, int64_t version) {
  return tables_->reading([&] {
    const int64_t task = tables_->task_of(version);
    std::vector<ConfusedPhotos> all;
    tables_->rows(
        [&](const SqlRow& r) {
          all.push_back({.truth = r.bytes(0), .said = r.bytes(1), .photos = r.integer(2)});
        },
        "SELECT tc.name, mc.name, count(*) FROM labels t" + tables_->by_index("labels_version") +
            " JOIN labels m ON m.photo = t.photo AND m.task = t.task AND m.version = ?"
            " JOIN classes tc ON tc.task = t.task AND tc.id = t.class"
            " JOIN classes mc ON mc.task = m.task AND mc.id = m.class" +
            std::string(kTruths) + " GROUP BY tc.name, mc.name ORDER BY tc.name, mc.name",
        version, task, collection);
    return all;
  });
}

// One pass over the labels, which lie photo by photo; counting the groups here sorts nothing.
Result<std::vector<NewPhotos>> SqlLabels::new_photos(int64_t collection, int64_t task) {
  constexpr int64_t kDay = 86'400;
  return tables_->reading([&] {
    std::map<int64_t, std::string> names;
    tables_->rows([&](const SqlRow& r) { names[r.integer(0)] = r.bytes(1); },
                  "SELECT id, name FROM classes WHERE task = ?", task);
    std::map<std::pair<int64_t, std::string>, int64_t> counts;
    tables_->rows(
        [&](const SqlRow& r) {
          ++counts[{r.integer(0), names.at(r.integer(1))}];
        },
        "SELECT min(l.time) / 86400, max(CASE WHEN l.current = 1 THEN l.class END) FROM labels l"
        " WHERE l.task = ? GROUP BY l.photo"
        " HAVING max(l.current) = 1"
        " AND EXISTS (SELECT 1 FROM places p WHERE p.photo = l.photo AND p.collection = ?)",
        task, collection);
    std::vector<NewPhotos> all;
    for (const auto& [key, photos] : counts) {
      all.push_back({.day = key.first * kDay, .class_name = key.second, .photos = photos});
    }
    return all;
  });
}

}  // namespace ndtrain::ndp
