#include "tests/sim/watched_work.h"

#include "tests/sim/collection.h"
#include "tests/sim/labelling.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

class WatchedSink final : public RowSink {
 public:
  WatchedSink(uint64_t job, RowSink& sink, Watch& watch, WatchedJobFactory::Memory& memory, Bug bug)
      : job_(job), sink_(sink), watch_(watch), memory_(memory), bug_(bug) {}

  Result<std::vector<uint64_t>> open(const Manifest& manifest) override {
    manifest_ = &manifest;
    Result<std::vector<uint64_t>> durable = sink_.open(manifest);
    if (!durable.ok()) return durable;
    watch_.opened(job_, manifest, "", *durable);
    if (bug_ == Bug::kReceivedIsDurable) {
      std::set<uint64_t> all(durable->begin(), durable->end());
      all.insert(memory_.received.begin(), memory_.received.end());
      durable->assign(all.begin(), all.end());
    }
    return durable;
  }

  std::map<Digest, std::string> rows() {
    auto& spool = static_cast<Spool&>(sink_);
    std::map<Digest, std::string> all;
    for (uint64_t n = 0; n < manifest_->size(); ++n) {
      const Digest& photo = manifest_->entry(n).digest;
      if (!spool.has(photo)) continue;
      std::string row(Collection::kRow, '\0');
      spool.read(photo, std::as_writable_bytes(std::span(row)));
      all[photo] = row;
    }
    return all;
  }

  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    std::vector<RowIngest::Rows> now(rows.begin(), rows.end());
    if (bug_ == Bug::kReceivedIsDurable) {
      for (const RowIngest::Rows& r : now) {
        for (const auto& [number, row] : r.rows) memory_.received.insert(number);
      }
    }
    if (bug_ == Bug::kAckBeforeDurable) now.swap(waiting_);
    const auto result = sink_.keep(now);
    if (bug_ == Bug::kFullDiskIgnored && result.status().code() == Code::kNoSpace) {
      return std::vector<RowIngest::BadRow>();
    }
    if (!result.ok()) return result;
    for (const RowIngest::Rows& r : now) {
      for (const auto& [number, row] : r.rows) {
        if (bug_ == Bug::kRepeatsKept && number % 7 == 0) {  // as if the ingest let one through
          Digest other = manifest_->entry(number).digest;
          other[0] ^= 1;
          static_cast<Spool&>(sink_).put(other, std::as_bytes(std::span(row))).or_throw();
        }
        watch_.kept(job_, number);
      }
    }
    return result;
  }

 private:
  const uint64_t job_;
  RowSink& sink_;
  Watch& watch_;
  WatchedJobFactory::Memory& memory_;
  Bug bug_;
  const Manifest* manifest_ = nullptr;
  std::vector<RowIngest::Rows> waiting_;
};

class WatchedWork final : public JobWork {
 public:
  WatchedWork(uint64_t job, std::unique_ptr<JobWork> work, Watch& watch,
              WatchedJobFactory::Memory& memory, Bug bug, uint64_t life)
      : job_(job), work_(std::move(work)), watch_(watch), memory_(memory), bug_(bug), life_(life) {}

  RowRequest prepare() override {
    RowRequest request = work_->prepare();
    if (bug_ == Bug::kSplitByLife) request.manifest.seed += life_;
    sink_ = std::make_unique<WatchedSink>(job_, work_->sink(), watch_, memory_, bug_);
    return request;
  }
  RowSink& sink() override { return *sink_; }
  void manifest(const Manifest& manifest, const std::vector<std::string>& stores) override {
    watch_.stage = Stage::kValidation;
    work_->manifest(manifest, stores);
  }
  bool run(uint32_t run) override {
    watch_.stage = run == 0 ? Stage::kFirstRun : run == 1 ? Stage::kSecondRun : Stage::kPublishing;
    return work_->run(run);
  }
  JobOutcome finish() override {
    watch_.spool = sink_->rows();
    return work_->finish();
  }
  void discard(const std::function<bool()>&) override {}  // the rows are looked at when all is over

 private:
  const uint64_t job_;
  std::unique_ptr<JobWork> work_;
  Watch& watch_;
  WatchedJobFactory::Memory& memory_;
  Bug bug_;
  uint64_t life_;
  std::unique_ptr<WatchedSink> sink_;
};

}  // namespace

std::unique_ptr<JobWork> WatchedJobFactory::make(uint64_t job, const JobSpec& spec,
                                                 const std::string& directory, Progress& progress) {
  if (spec.kind == JobKind::kRelabel) return make_relabelling(job, spec, directory, progress);
  return std::make_unique<WatchedWork>(job, works_.make(job, spec, directory, progress), watch_,
                                       memory_, bug_, life_);
}

std::unique_ptr<JobWork> WatchedJobFactory::make_relabelling(uint64_t job, const JobSpec& spec,
                                                             const std::string& directory,
                                                             Progress& progress) {
  watch_.stage = Stage::kLabelling;
  if (!has_url_ && !memory_.database) memory_.database = make_database();
  LabelDb& db = has_url_ ? labels() : *memory_.database;
  const bool by_default = bug_ == Bug::kRelabelsByDefaultTask;
  const std::optional<PublishedModel> model =
      versions_.in_force(by_default ? std::string(kDefaultTask) : spec.task);
  if (!model) throw Error("no version is in force");
  return make_labelling(job, context_, spec, directory, *model, db, progress, watch_, bug_, life_);
}

}  // namespace ndtrain::sim
