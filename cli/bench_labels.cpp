// How fast labels get into a database, and questions out of one: photos labelled once by one
// version, then labelled anew by another.
#include <fmt/format.h>

#include <algorithm>

#include "cli/bench.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int64_t kTopK = 5, kLabelled = 1'700'000'000;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class LabelsBench {
 public:
  LabelsBench(LabelDb& db, const Args& args)
      : db_(db),
        photos_(args.integer("photos")),
        classes_(args.integer("classes")),
        batch_(args.integer("batch")),
        rng_(1, "labels") {
    if (photos_ < 1 || classes_ < kTopK || batch_ < 1) {
      throw UsageError(
          fmt::format("--photos and --batch: at least 1; --classes: at least {}", kTopK));
    }
  }

  Json run() {
    collection_ = db_.collection("bench").or_throw();
    task_ = db_.task("bench").or_throw();
    if (!db_.versions(task_).or_throw().empty()) {
      throw Error("the database has labels of an earlier bench; name an empty one");
    }
    std::vector<std::string> names;
    for (int64_t c = 0; c < classes_; ++c) names.push_back(fmt::format("class {}", c));
    class_ids_ = db_.class_ids(task_, names).or_throw();
    store_ = db_.store("bench").or_throw();
    Json json = {{"photos", photos_}, {"classes", classes_}, {"batch", batch_}, {"top_k", kTopK}};
    json["photos_added_per_s"] = rate(seconds_of([&] { add_photos(); }));
    json["first_labels_per_s"] = rate(seconds_of([&] { label("first", 1); }));
    json["relabelled_per_s"] = rate(seconds_of([&] { label("second", 2); }));
    ask(json);
    return json;
  }

 private:
  double rate(double seconds) const { return static_cast<double>(photos_) / seconds; }

  void add_photos() {
    for (int64_t begin = 0; begin < photos_; begin += batch_) {
      std::vector<PhotoPlace> places;
      for (int64_t i = begin; i < std::min(begin + batch_, photos_); ++i) {
        const std::string path = fmt::format("store/{:03}/{:07}.jpg", i / 1000, i);
        places.push_back({path, sha256(path)});
      }
      const auto ids = db_.add_photos(collection_, places).or_throw();
      ids_.insert(ids_.end(), ids.begin(), ids.end());
    }
  }

  // Each version draws its classes by itself, so that nearly every label changes.
  void label(const std::string& name, int64_t created) {
    const int64_t version =
        db_.version(task_, {.content = sha256(name), .created = created}).or_throw();
    db_.put_in_force(task_, version).or_throw();
    for (int64_t begin = 0; begin < photos_; begin += batch_) {
      LabelBatch batch{.task = task_, .version = version};
      for (int64_t i = begin; i < std::min(begin + batch_, photos_); ++i) {
        batch.labels.push_back(label_of(ids_[static_cast<size_t>(i)]));
      }
      db_.put_labels(batch).or_throw();
    }
  }

  NewLabel label_of(int64_t photo) {
    const auto best = static_cast<int64_t>(rng_.next_below(static_cast<uint64_t>(classes_)));
    NewLabel label{.photo = photo, .time = kLabelled, .store = store_};
    double score = 0.5 + 0.5 * rng_.next_uniform();
    for (int64_t k = 0; k < kTopK; ++k, score *= 0.4) {
      const auto c = static_cast<size_t>((best + k * 7) % classes_);
      label.top_k.push_back({class_ids_[c], static_cast<float>(score)});
    }
    label.class_id = label.top_k[0].class_id;
    label.score = label.top_k[0].score;
    return label;
  }

  // What a watch asks each time.
  void look() {
    const int64_t version = db_.in_force(task_).or_throw().value();
    const int64_t all = db_.counts(collection_, task_).or_throw().by_version.at(version);
    int64_t seen = db_.count_truths(collection_, task_, 0, 1000).or_throw();
    for (const int64_t since : {kLabelled - 86'400, kLabelled}) {
      for (const ClassCount& c :
           db_.class_counts(collection_, version, since, since + 86'400).or_throw()) {
        seen += c.photos;
      }
    }
    if (seen != all) throw Error("bench labels: ", seen, " labels are counted of ", all);
  }

  // Milliseconds of a page of 100 rows: the median, and the slowest.
  void ask(Json& json) {
    json["watch_ms"] = 1e3 * seconds_of([&] { look(); });
    const auto timed_query = [&](const char* name, LabelQuery q) {
      q.collection = collection_;
      q.task = task_;
      q.limit = 100;
      std::vector<double> times;
      for (int i = 0; i < 20; ++i) {
        q.after.photo = ids_[rng_.next_below(ids_.size())];
        if (q.class_id) q.class_id = class_ids_[rng_.next_below(class_ids_.size())];
        times.push_back(1e3 * seconds_of([&] { db_.query(q).or_throw(); }));
      }
      std::ranges::sort(times);
      json[fmt::format("{}_query_ms", name)] = median(times);
      json[fmt::format("{}_query_slowest_ms", name)] = times.back();
    };
    json["settle_s"] = seconds_of([&] { db_.settle().or_throw(); });
    timed_query("by_label", {.class_id = 0});
    timed_query("no_stale", {.stale = true});
    const int64_t third = db_.version(task_, {.content = sha256("third"), .created = 3}).or_throw();
    json["put_in_force_s"] = seconds_of([&] { db_.put_in_force(task_, third).or_throw(); });
    timed_query("all_stale", {.stale = true});
  }

  LabelDb& db_;
  const int64_t photos_, classes_, batch_;
  Rng rng_;
  int64_t collection_ = 0, task_ = 0, store_ = 0;
  std::vector<int64_t> ids_, class_ids_;
};

}  // namespace

void declare_bench_labels(ArgsSpec& args) {
  args.flag("db", "a label database without labels; made if absent (required)", "URL");
  args.flag("photos", "how many", "N", "1000000");
  args.flag("classes", "how many", "N", "100");
  args.flag("b,batch", "labels in one transaction", "N", "10000");
}

int run_bench_labels(Context& context, const Args& args) {
  const auto db = open_label_db(args.required("db")).or_throw();
  const Json json = LabelsBench(*db, args).run();
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
