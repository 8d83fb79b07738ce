// Any sequence of calls gives the same answers from every kind of database, and these are what the
// rules say when they are followed naively.
#include <gmock/gmock.h>

#include <map>
#include <sstream>
#include <tuple>

#include "framework/core/rng.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;

constexpr int kPhotos = 12, kClasses = 3, kVersions = 4;

// The rules of label_db.h, for one task: a list of labels.
struct Naive {
  struct Label {
    size_t photo;
    int class_index, version;  // -1: no model's
    LabelSource source;
    int64_t time;
    bool just_now;
  };
  std::vector<Label> labels;
  std::vector<bool> withdrawn = std::vector<bool>(kVersions, false);
  int in_force = -1;

  auto rank(const Label& l) const {
    return std::tuple(l.source, l.version >= 0 && l.version == in_force, l.version, l.time);
  }
  bool says_nothing_new(const Label& l) const {
    const Label* last = nullptr;
    for (const Label& o : labels) {
      if (o.photo != l.photo || o.source != l.source) continue;
      if (l.version >= 0 ? o.version == l.version
                         : !l.just_now && o.class_index == l.class_index && o.time == l.time) {
        return true;
      }
      if (!last || o.time >= last->time) last = &o;
    }
    return l.version < 0 && last && last->class_index == l.class_index;
  }
  void put(Label l) {
    if (says_nothing_new(l)) return;
    for (const Label& o : labels) {
      if (l.version < 0 && l.just_now && o.photo == l.photo && o.source == l.source) {
        l.time = std::max(l.time, o.time + 1);
      }
    }
    labels.push_back(l);
  }
  std::map<size_t, Label> current() const {
    std::map<size_t, Label> best;
    for (const Label& l : labels) {
      if (l.version >= 0 && withdrawn[static_cast<size_t>(l.version)]) continue;
      const auto [it, first] = best.emplace(l.photo, l);
      if (!first && rank(l) >= rank(it->second)) it->second = l;
    }
    return best;
  }
  void undo(int v) {
    withdrawn[static_cast<size_t>(v)] = true;
    if (in_force != v) return;
    in_force = kVersions - 1;
    while (in_force >= 0 && withdrawn[static_cast<size_t>(in_force)]) --in_force;
  }
};

// One database under test, told the same as its Naive.
class Told {
 public:
  explicit Told(const std::string& kind) : file_(kind), db_(file_.open()) {
    collection_ = db_->collection("c").or_throw();
    task_ = db_->task("t").or_throw();
    const std::vector<std::string> names{"c0", "c1", "c2"};
    classes_ = db_->class_ids(task_, names).or_throw();
    photos_ = db_->add_photos(collection_, places(0, kPhotos)).or_throw();
    for (int v = 0; v < kVersions; ++v) {
      // Equal times: the number decides.
      versions_.push_back(
          db_->version(task_, {.content = sha256(std::to_string(v)), .created = v / 2}).or_throw());
    }
  }

  Status put(const std::vector<Naive::Label>& labels) {
    LabelBatch batch{.task = task_, .source = labels[0].source};
    if (labels[0].version >= 0) batch.version = versions_[static_cast<size_t>(labels[0].version)];
    for (const auto& l : labels) {
      batch.labels.push_back({.photo = photos_[l.photo],
                              .class_id = classes_[static_cast<size_t>(l.class_index)],
                              .score = 0.25 * l.class_index,
                              .top_k = {{classes_[0], 0.5}},
                              .time = l.time,
                              .just_now = l.just_now});
    }
    const auto put = db_->put_labels(batch);
    if (put.ok()) report_ = std::to_string(put->added) + "/" + std::to_string(put->current);
    return put.status();
  }
  Status put_in_force(int v) { return db_->put_in_force(task_, versions_[static_cast<size_t>(v)]); }
  Status undo(int v) {
    const UndoReport will = db_->preview_undo(versions_[static_cast<size_t>(v)]).or_throw();
    const auto undone = db_->undo(versions_[static_cast<size_t>(v)], 7);
    EXPECT_TRUE(!undone.ok() || *undone == will) << "what was announced";
    if (undone.ok()) {
      report_ = std::to_string(undone->withdrawn) + "-" + std::to_string(undone->restored);
    }
    return undone.status();
  }
  void remove(size_t photo) {
    db_->remove_photos(std::span(photos_).subspan(photo, 1)).or_throw();
    photos_[photo] = db_->add_photos(collection_, places(static_cast<int>(photo), 1)).or_throw()[0];
  }

  // What all questions are answered, as text, without ids.
  std::string answers(Rng& rng) {
    std::string all = report_ + "\n";
    LabelQuery q{.collection = collection_, .task = task_, .limit = 1 + draw(rng, 5)};
    if (draw(rng, 3) == 0) q.class_id = classes_[static_cast<size_t>(draw(rng, kClasses))];
    if (draw(rng, 3) == 0) q.stale = true;
    if (draw(rng, 4) == 0) q.sources = {LabelSource::kHuman, LabelSource::kFolder};
    if (draw(rng, 4) == 0) q.min_score = 0.25;
    if (draw(rng, 4) == 0) q.version = versions_[static_cast<size_t>(draw(rng, kVersions))];
    for (bool more = true; more;) {
      const LabelPage page = db_->query(q).or_throw();
      for (const LabelRow& r : page.rows) all += text_of(r);
      more = page.next.has_value();
      if (more) q.after = *page.next;
    }
    const LabelStats stats = db_->stats(collection_, task_).or_throw();
    all += fmt("stats", stats.photos, stats.labelled, stats.stale);
    for (const auto& [name, n] : stats.by_class) all += fmt(name, n);
    for (const auto& [name, n] : stats.by_source) all += fmt(name, n);
    const size_t photo = static_cast<size_t>(draw(rng, kPhotos));
    for (const LabelRow& r : db_->history(task_, photos_[photo]).or_throw()) all += text_of(r);
    const auto from = versions_[static_cast<size_t>(draw(rng, kVersions))];
    const auto to = versions_[static_cast<size_t>(draw(rng, kVersions))];
    const LabelDiff diff = db_->diff(collection_, from, to).or_throw();
    all += fmt("diff", diff.same, diff.changed, diff.only_from, diff.only_to);
    for (const LabelChange& c : diff.changes) all += fmt(c.from, c.to, c.photos);
    for (const ChangedPhoto& c :
         db_->changed_photos({.collection = collection_, .from = from, .to = to}).or_throw()) {
      all += fmt(c.path, c.from, c.to);
    }
    const FieldAccuracy a = db_->accuracy(collection_, from).or_throw();
    all += fmt("accuracy", a.truths, a.all.photos, a.all.agree);
    Agreement sum;
    for (const ConfusedPhotos& c : db_->confusion(collection_, from).or_throw()) {
      all += fmt(c.truth, c.said, c.photos);
      sum.photos += c.photos;
      sum.agree += c.truth == c.said ? c.photos : 0;
    }
    EXPECT_TRUE(sum.photos == a.all.photos && sum.agree == a.all.agree) << "the same photos";
    std::map<std::string, int64_t> named;
    for (const NewPhotos& n : db_->new_photos(collection_, task_).or_throw()) {
      named[n.class_name] += n.photos;
    }
    EXPECT_EQ(named,
              (std::map<std::string, int64_t>(stats.by_class.begin(), stats.by_class.end())));
    const uint64_t seed = rng.next_bits();
    for (const ReviewPhoto& p : db_->review(collection_, task_, 5, seed).or_throw()) {
      all += fmt(p.path, p.label, p.at_random);
    }
    all += fmt("labelled");
    for (const int64_t p : db_->labelled_by(from, photos_).or_throw()) all += fmt(p);
    return all;
  }

  // "class source version" of each photo's current label.
  std::map<size_t, std::string> current() {
    std::map<size_t, std::string> found;
    const LabelQuery q{.collection = collection_, .task = task_};
    for (const LabelRow& r : db_->query(q).or_throw().rows) {
      const auto p = static_cast<size_t>(std::ranges::find(photos_, r.photo) - photos_.begin());
      EXPECT_FALSE(found.contains(p)) << "two current labels";
      found[p] = r.class_name + text_of(r.version);
    }
    return found;
  }
  std::map<size_t, std::string> current(const Naive& naive) const {
    std::map<size_t, std::string> expected;
    for (const auto& [photo, l] : naive.current()) {
      const auto version =
          l.version < 0 ? std::nullopt : std::optional(versions_[static_cast<size_t>(l.version)]);
      expected[photo] = "c" + std::to_string(l.class_index) + text_of(version);
    }
    return expected;
  }

 private:
  static int64_t draw(Rng& rng, int64_t n) {
    return static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(n)));
  }
  template <typename... Parts>
  static std::string fmt(const Parts&... parts) {
    std::ostringstream text;
    ((text << parts << ' '), ...);
    text << '\n';
    return text.str();
  }
  static std::string text_of(std::optional<int64_t> version) {
    return version ? " by " + std::to_string(*version) : " by nobody";
  }
  static std::string text_of(const LabelRow& r) {
    return fmt(r.path, r.class_name, r.score.value_or(-1), name_of(r.source), text_of(r.version),
               r.time, r.withdrawn, r.top_k.size());
  }

  TemporaryDb file_;
  std::unique_ptr<LabelDb> db_;
  int64_t collection_ = 0, task_ = 0;
  std::vector<int64_t> classes_, photos_, versions_;
  std::string report_;
};

std::vector<Naive::Label> draw_batch(Rng& rng) {
  std::vector<Naive::Label> labels;
  const auto source = static_cast<LabelSource>(rng.next_below(2) ? 1 : 1 + rng.next_below(4));
  const int version =
      source == LabelSource::kModel ? static_cast<int>(rng.next_below(kVersions)) : -1;
  for (uint64_t n = 1 + rng.next_below(6); n-- > 0;) {  // a photo may come twice
    labels.push_back({.photo = rng.next_below(kPhotos),
                      .class_index = static_cast<int>(rng.next_below(kClasses)),
                      .version = version,
                      .source = source,
                      .time = static_cast<int64_t>(rng.next_below(5)),
                      .just_now = rng.next_below(2) == 0});
  }
  return labels;
}

TEST(LabelOracle, AnySequenceOfCallsLeavesWhatTheRulesSayInEveryKindOfDatabase) {
  std::vector<std::string> kinds{"sqlite"};
  if (support::PostgresServer::lacking().empty()) kinds.emplace_back("postgresql");
  for (uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<std::unique_ptr<Told>> told;
    for (const std::string& kind : kinds) told.push_back(std::make_unique<Told>(kind));
    Naive naive;
    Rng rng(seed, "oracle");
    for (int step = 0; step < 120; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      const auto what = rng.next_below(10);
      const auto v = static_cast<int>(rng.next_below(kVersions));
      const auto batch = draw_batch(rng);
      const bool undone =
          batch[0].version >= 0 && naive.withdrawn[static_cast<size_t>(batch[0].version)];
      const bool remove = what == 9 && step % 8 == 0;  // each rewrites the files
      for (const auto& t : told) {
        const Status said = what < 7    ? t->put(batch)
                            : what == 7 ? t->put_in_force(v)
                            : what == 8 ? t->undo(v)
                                        : Status();
        ASSERT_EQ(said.code(), what < 7 && undone ? Code::kCancelled : Code::kOk) << said.message();
        if (remove) t->remove(batch[0].photo);
      }
      if (what < 7 && !undone) std::ranges::for_each(batch, [&](const auto& l) { naive.put(l); });
      if (what == 7) {
        naive.in_force = v;
        naive.withdrawn[static_cast<size_t>(v)] = false;
      }
      if (what == 8) naive.undo(v);
      if (remove) {
        std::erase_if(naive.labels, [&](const auto& l) { return l.photo == batch[0].photo; });
      }
      const Rng asked = rng;
      std::vector<std::string> answers;
      for (const auto& t : told) {
        ASSERT_EQ(t->current(), t->current(naive));
        rng = asked;
        answers.push_back(t->answers(rng));
        ASSERT_EQ(answers.back(), answers.front());
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain::ndp
