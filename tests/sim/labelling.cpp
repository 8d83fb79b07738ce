#include "tests/sim/labelling.h"

#include <set>

#include "ndp/labels/sqlite_labels.h"
#include "ndp/labels/top_k_row.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr int64_t kTransaction = 4000;  // bytes of the volume, about

class Sink final : public RowSink {
 public:
  Sink(uint64_t job, std::string model, RowSink& sink, Fs& fs, Watch& watch)
      : job_(job), model_(std::move(model)), sink_(sink), fs_(fs), watch_(watch) {}

  Status inventory(const RowIngest::Inventory& i) override {
    return transaction([&] { return sink_.inventory(i); });
  }
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override {
    auto durable = transaction([&] { return sink_.open(manifest); });
    if (durable.ok()) watch_.opened(job_, manifest, model_, *durable);
    return durable;
  }
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    auto bad = transaction([&] { return sink_.keep(rows); });
    for (const RowIngest::Rows& r : rows) {
      for (const auto& [number, row] : r.rows) {
        if (bad.ok()) watch_.kept(job_, number);
      }
    }
    return bad;
  }

 private:
  // A call to the disk before it, and one between it and its answer.
  template <typename F>
  auto transaction(F f) -> decltype(f()) {
    fs_.sync_directory("state");
    const Result<Space> space = fs_.space("state");
    if (space.ok() && space->free < kTransaction) {
      return Status(Code::kNoSpace, "the database or disk is full");
    }
    auto result = f();
    fs_.sync_directory("state");
    return result;
  }

  const uint64_t job_;
  const std::string model_;
  RowSink& sink_;
  Fs& fs_;
  Watch& watch_;
};

class Labelling final : public JobWork {
 public:
  Labelling(uint64_t job, std::unique_ptr<JobWork> work, Fs& fs, Watch& watch)
      : job_(job), work_(std::move(work)), fs_(fs), watch_(watch) {}

  RowRequest prepare() override {
    RowRequest request = work_->prepare();
    sink_ = std::make_unique<Sink>(job_, request.ask.extractor() + request.ask.head(),
                                   work_->sink(), fs_, watch_);
    return request;
  }
  RowSink& sink() override { return *sink_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override {
    work_->manifest(manifest, stores);
  }
  bool run(uint32_t run) override { return work_->run(run); }
  JobOutcome finish() override { return work_->finish(); }

 private:
  const uint64_t job_;
  std::unique_ptr<JobWork> work_;
  Fs& fs_;
  Watch& watch_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace

std::string label_row(const Digest& photo, const Digest& head) {
  std::vector<RankedClass> best;
  for (uint32_t i = 0; i < Collection::kClasses; ++i) {
    best.push_back({(labelled_class(photo, head) + i) % Collection::kClasses,
                    0.5F / static_cast<float>(i + 1)});
  }
  return top_k_row(best);
}

std::unique_ptr<JobWork> watched_labelling(uint64_t job, std::unique_ptr<JobWork> work, Fs& fs,
                                           Watch& watch) {
  return std::make_unique<Labelling>(job, std::move(work), fs, watch);
}

std::unique_ptr<LabelDb> make_database() { return SqliteLabels::open(":memory:").or_throw(); }

std::unique_ptr<JobWork> make_labelling(uint64_t job, const JobContext& context,
                                        const JobSpec& spec, const std::string& directory,
                                        PublishedModel model, LabelDb& db, Progress& progress,
                                        Watch& watch, Bug bug, uint64_t life) {
  if (bug == Bug::kVersionByLife) model.content[0] = static_cast<uint8_t>(life);
  return watched_labelling(job,
                           std::make_unique<LabelWork>(context, spec, directory, std::move(model),
                                                       &db, progress, HumanLabels()),
                           context.fs, watch);
}

void check_labels(LabelDb& db, const Collection& photos, const Digest& head, size_t lost,
                  bool whole, Watch& watch) {
  const int64_t task = db.task(kDefaultTask).or_throw();
  std::set<Digest> all;
  for (size_t s = 0; s < Collection::kStores; ++s) {
    for (const StorePhoto& p : photos.of(s)) {
      all.insert(p.digest);
    }
  }
  const std::vector<Digest> wanted(all.begin(), all.end());
  const std::vector<int64_t> ids = db.photos_with(wanted).or_throw();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Digest& photo = wanted[i];
    const int64_t id = ids[i];
    const std::vector<LabelRow> labels =
        id == 0 ? std::vector<LabelRow>() : db.history(task, id).or_throw();
    const std::string name = "photo " + to_hex(photo).substr(0, 12);
    if (labels.size() > 1) {
      watch.violation(name + " has " + std::to_string(labels.size()) + " labels");
    } else if (labels.empty() && whole && photos.readable(photo, lost)) {
      watch.violation(name + " has no label");
    } else if (!labels.empty() &&
               labels[0].class_name != class_name(kDefaultTask, labelled_class(photo, head))) {
      watch.violation(name + " has the label of another: " + labels[0].class_name);
    }
  }
}

}  // namespace ndtrain::sim
