// How fast a Tuner takes in features: both roles' real services in this process, over a real link
// and into a real spool; the features come from memory.
#include <fmt/format.h>

#include <filesystem>

#include "cli/bench_roles.h"
#include "cli/computing_args.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "tuner/ingest/spool.h"
#include "tuner/service/service.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

namespace {

// Photos that are numbers, rows that are slices of one random buffer.
class RowsFromMemory final : public RowProducer {
 public:
  RowsFromMemory(uint64_t photos, size_t row_bytes) : row_bytes_(row_bytes) {
    for (uint64_t i = 0; i < photos; ++i) {
      inventory_.photos.push_back({.digest = sha256(std::to_string(i)), .label = "class"});
    }
    std::ranges::sort(inventory_.photos, {}, &StorePhoto::digest);
    Rng rng(1, "rows");
    while (buffer_.size() < 4 * row_bytes_) buffer_.push_back(static_cast<char>(rng.next_bits()));
  }

  uint64_t photos() const override { return inventory_.photos.size(); }
  Result<StoreInventory> scan() override { return inventory_; }
  Result<std::unique_ptr<JobRows>> open(const wire::Job&, std::shared_ptr<const StoreInventory>,
                                        const std::string&, const std::string&) override {
    return std::unique_ptr<JobRows>(std::make_unique<Slices>(*this));
  }

 private:
  class Slices final : public JobRows {
   public:
    explicit Slices(const RowsFromMemory& of) : of_(of) {}
    RowDelivery::RowSize row() const override { return {.bytes = of_.row_bytes_}; }
    Result<Made> make(std::span<const size_t> places) override {
      Made made;
      for (const size_t place : places) {
        made.rows.emplace_back(of_.buffer_, place % (3 * of_.row_bytes_), of_.row_bytes_);
      }
      return made;
    }

   private:
    const RowsFromMemory& of_;
  };

  size_t row_bytes_;
  StoreInventory inventory_;
  std::string buffer_;
};

// Takes rows into a spool, and nothing else.
class IntakeWork final : public JobWork {
 public:
  IntakeWork(Context& context, const std::string& directory, size_t row_bytes)
      : spool_(context.fs(), context.clock(), join(directory, "spool"), Digest{}, int64_t{1} << 40),
        row_bytes_(row_bytes) {}

  RowRequest prepare() override {
    return {.ask = {}, .row_bytes = row_bytes_, .manifest = {.val_split = 0}};
  }
  RowSink& sink() override { return spool_; }
  void manifest(const Manifest&, const std::vector<std::string>&) override {}
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override { return {}; }

 private:
  Spool spool_;
  size_t row_bytes_;
};

class IntakeWorks final : public JobFactory {
 public:
  IntakeWorks(Context& context, size_t row_bytes) : context_(context), row_bytes_(row_bytes) {}
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string& directory,
                                Progress&) override {
    return std::make_unique<IntakeWork>(context_, directory, row_bytes_);
  }

 private:
  Context& context_;
  size_t row_bytes_;
};

}  // namespace

void declare_bench_intake(ArgsSpec& args) {
  args.flag("photos", "how many", "N", "300000");
  args.flag("row-bytes", "features of one photo", "BYTES", "4096");
  args.flag("state", "where both roles keep their state; what is there is lost (required)", "DIR");
  declare_threads(args);
}

int run_bench_intake(Context& context, const Args& args) {
  const std::string directory = args.required("state");
  const auto photos = static_cast<uint64_t>(args.integer("photos"));
  const size_t row_bytes = args.bytes("row-bytes");
  if (photos < 1 || row_bytes < 1) throw UsageError("--photos and --row-bytes: at least 1");
  std::filesystem::remove_all(join(directory, "tuner"));
  std::filesystem::remove_all(join(directory, "store"));
  RowsFromMemory maker(photos, row_bytes);
  StateDirectory state =
      StateDirectory::open(context.fs(), join(directory, "tuner"), "tuner").or_throw();
  ModelStore models(context.fs(), state.file("models"));
  Versions versions(context.fs(), state.file("versions.json"));
  IntakeWorks works(context, row_bytes);
  LinkEvents<wire::FromStore> events;
  const auto server = LinkServer::listen("127.0.0.1:0", {}, events).or_throw();
  ThreadLanes lanes(TunerService::kLanes, [&] { events.wake(); });
  TunerService service(
      {context.fs(), context.clock(), state, *server, lanes, works, models, versions},
      state.next_term(1).or_throw());
  std::atomic<bool> stop = false;
  std::jthread store(
      [&] { run_store(context, join(directory, "store"), server->address(), maker, stop); });
  JobSpec spec;
  spec.kind = JobKind::kEvaluate;
  spec.model = to_hex(models.add("no model").or_throw());
  const uint64_t job = service.submit(spec);
  while (durable_rows(service, job) == 0 && service.job(job).open()) turn(service, events, lanes);
  const auto start = std::chrono::steady_clock::now();
  const auto before = static_cast<double>(durable_rows(service, job));
  while (service.job(job).open() && durable_rows(service, job) < photos)
    turn(service, events, lanes);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  while (service.job(job).open()) turn(service, events, lanes);
  stop = true;
  if (service.job(job).state != JobState::kDone) throw Error(service.job(job).message);
  const double rate = (static_cast<double>(photos) - before) / seconds;
  const Json json = {{"photos", photos},
                     {"row_bytes", row_bytes},
                     {"seconds", seconds},
                     {"photos_per_s", rate},
                     {"mb_per_s", rate * static_cast<double>(row_bytes) / 1e6}};
  context.print(json, table(json));
  return kOk;
}

}  // namespace ndtrain::cli
