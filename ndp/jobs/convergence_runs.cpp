#include "ndp/jobs/convergence_runs.h"

#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "framework/comm/memory_transport.h"

namespace ndtrain::ndp {
namespace {

// Nothing is said of a run among many.
class Unheard final : public Progress {
 public:
  explicit Unheard(const Progress& of) : of_(of) {}
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string&) override {}
  bool interrupted() const override { return of_.interrupted(); }

 private:
  const Progress& of_;
};

double last_loss(Fs& fs, const std::string& run) {
  const std::vector<EpochRow> rows = parse_metrics(fs.read(join(run, "metrics.jsonl")).or_throw());
  if (rows.empty()) return std::numeric_limits<double>::infinity();
  const double loss = rows.back().val ? rows.back().val->loss : rows.back().train_loss;
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

// What one rank says of its end; a lost rank is the others' trouble with it.
void rethrow_first(const std::vector<std::exception_ptr>& failed) {
  std::exception_ptr lost;
  for (const std::exception_ptr& f : failed) {
    if (!f) continue;
    try {
      std::rethrow_exception(f);
    } catch (const RankLost&) {
      lost = f;
    }
  }
  if (lost) std::rethrow_exception(lost);
}

}  // namespace

std::optional<double> ConvergenceRuns::loss(int64_t batch, double drop, const Place& place) const {
  std::filesystem::remove_all(directory);
  SparseSyncOptions sync{.drop = drop, .staleness = staleness};
  sync.seed = training.how.trainer.seed;
  FinetuneConfig config = training;
  config.how.trainer.batch = batch;
  config.how.trainer.shards = ranks;
  config.how.ranks.one_cache = true;
  config.how.slow_link = SlowLinkConfig{.method = method_of({.sync = "sparse", .options = sync})};
  const auto count = static_cast<size_t>(ranks);
  auto transports = memory_transports(ranks);
  std::vector<std::exception_ptr> failed(count);
  std::vector<FinetuneResult> results(count);
  {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < count; ++r) {
      threads.emplace_back([&, r] {
        try {
          Unheard progress(place.progress);
          FinetuneConfig own = config;
          own.out = join(directory, "rank" + std::to_string(r));
          own.how.slow_link->directory = own.out;
          results[r] =
              finetune(own, place.device, place.fs, place.clock, progress,
                       std::make_unique<Communicator>(
                           std::move(transports[r]),
                           Communicator::Options{.in_flight = 1, .stall = kTrainingStall}));
        } catch (...) {
          failed[r] = std::current_exception();
        }
      });
    }
  }
  rethrow_first(failed);
  std::optional<double> loss;
  if (!results[0].interrupted) loss = last_loss(place.fs, join(directory, "rank0"));
  std::filesystem::remove_all(directory);
  return loss;
}

}  // namespace ndtrain::ndp
