#include "framework/sparse/control/rate_controller.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

constexpr int kRandomStarts = 32;
constexpr double kRunMemory = 0.999, kKeepBatch = 1.01, kKeepImbalance = 0.02, kSameDrop = 1e-9;

ConvergenceProfile checked_profile(ConvergenceProfile profile, const std::string& model) {
  validate(profile);
  if (profile.model != model) {
    throw Error("convergence profile: of ", printable(profile.model, 60), ", not of ",
                printable(model, 60), ", which is trained");
  }
  return profile;
}

RateControllerOptions checked_options(RateControllerOptions o) {
  if (o.first_batch.size() < 2) {
    throw Error("rate controller: ", o.first_batch.size(), " ranks; it is for two or more");
  }
  if (o.first_batch.size() > size_t{limits::kRanks}) {
    throw Error("rate controller: ", o.first_batch.size(), " ranks, at most ", limits::kRanks);
  }
  if (o.first_batch.size() != o.largest_batch.size()) {
    throw Error("rate controller: batches of ", o.first_batch.size(), " ranks, largest ones of ",
                o.largest_batch.size());
  }
  for (size_t r = 0; r < o.first_batch.size(); ++r) {
    if (o.first_batch[r] >= 1 && o.first_batch[r] <= o.largest_batch[r]) continue;
    throw Error("rate controller: rank ", r, " begins with a batch of ", o.first_batch[r],
                ", not from 1 to ", o.largest_batch[r]);
  }
  if (o.sites != 0 && (o.sites < 2 || o.sites > std::ssize(o.first_batch))) {
    throw Error("rate controller: ", o.sites, " sites of ", o.first_batch.size(),
                " ranks; it is for two sites or more");
  }
  if (o.first_step < 0) throw Error("rate controller: begins with step ", o.first_step);
  validate(o.sizes);
  return o;
}

struct Terms {  // of J: rate + 5 imbalance
  double j, rate, imbalance, h;
};

Terms terms_of(const BatchObjective& objective, const std::vector<int64_t>& batch) {
  const std::vector<double> x(batch.begin(), batch.end());
  const double j = objective(x), imbalance = objective.imbalance(x);
  return {.j = j,
          .rate = j - BatchObjective::kImbalanceWeight * imbalance,
          .imbalance = imbalance,
          .h = objective.loss_penalty(x)};
}

}  // namespace

RateController::RateController(ConvergenceProfile profile, RateControllerOptions options)
    : options_(checked_options(std::move(options))),
      penalty_(checked_profile(std::move(profile), options_.model), options_.seed),
      samples_(options_.first_batch.size(), ThroughputSamples(options_.throughput)),
      window_(static_cast<int>(options_.first_batch.size()), options_.first_step - 1),
      bandwidth_(options_.jump),
      in_force_({.from_step = options_.first_step,
                 .batch = options_.first_batch,
                 .drop = options_.first_drop}),
      decided_(in_force_.last()) {}

void RateController::log(const std::string& line) {
  if (log_.size() == kLogLines) {
    log_.pop_front();
    ++log_left_out_;
  }
  log_.push_back(fmt::format("step {}: {}", std::max(window_.newest(), options_.first_step), line));
}

std::vector<std::string> RateController::take_log() {
  std::vector<std::string> lines;
  if (log_left_out_ > 0) lines.push_back(fmt::format("{} lines are left out", log_left_out_));
  lines.insert(lines.end(), std::make_move_iterator(log_.begin()),
               std::make_move_iterator(log_.end()));
  log_.clear();
  log_left_out_ = 0;
  return lines;
}

std::string RateController::refusal(const Telemetry& t) const {
  if (const int64_t last = window_.last(t.rank); t.step <= last) {
    return fmt::format("it has told of step {} already", last);
  }
  if (t.step > window_.newest() + kFarAhead) {
    return fmt::format("the newest step is {}", window_.newest());
  }
  return fault_of(t);
}

std::optional<RateInstruction> RateController::tell(const Telemetry& t) {
  if (t.rank < 0 || t.rank >= ranks()) {
    throw Error("telemetry: of rank ", t.rank, " of ", ranks());
  }
  if (t.step < options_.first_step) {
    throw Error("telemetry: of step ", t.step, ", the first is ", options_.first_step);
  }
  if (const std::string why = refusal(t); !why.empty()) {
    ++ignored_;
    log(fmt::format("rank {}'s telemetry of step {} is ignored: {}", t.rank, t.step, why));
    return std::nullopt;
  }
  const int64_t complete = window_.complete();
  take(t);
  if (window_.complete() == complete) return std::nullopt;
  in_force_.forget_before(window_.complete());

  if (phase_ == Phase::kWarmUp) end_warm_up();
  if (phase_ == Phase::kGrow) return grow();
  if (phase_ == Phase::kRun) return run();
  return std::nullopt;
}

bool RateController::is_as_told(const Telemetry& t) {
  const RateInstruction& told = in_force_.at(t.step);
  const int64_t batch = told.batch[static_cast<size_t>(t.rank)];
  if (t.batch == batch && std::abs(t.drop - told.drop) <= kSameDrop) return true;
  log(
      fmt::format("rank {} did step {} with a batch of {} and drop {:.6g}, not {} and {:.6g}, in "
                  "force from step {}: what it waited does not count",
                  t.rank, t.step, t.batch, t.drop, batch, told.drop, told.from_step));
  return false;
}

void RateController::take(const Telemetry& t) {
  if (const int64_t next = window_.last(t.rank) + 1; t.step > next) {
    log(fmt::format("rank {} told nothing of steps {} to {}", t.rank, next, t.step - 1));
  }
  const bool as_told = is_as_told(t);
  const std::string left_out = samples_[static_cast<size_t>(t.rank)].add(t.batch, t.backward_ms);
  if (!left_out.empty()) {
    log(fmt::format("rank {}'s throughput of step {} is ignored: {}", t.rank, t.step, left_out));
  }
  window_.add(t, as_told);
}

void RateController::end_warm_up() {
  if (!std::ranges::all_of(samples_, &ThroughputSamples::enough)) return;
  phase_ = Phase::kGrow;
  log(fmt::format("warmed up: {} samples of throughput or more of each rank; batches grow",
                  ThroughputSamples::kLeast));
}

std::optional<RateInstruction> RateController::grow() {
  if (decided_.batch == options_.largest_batch) {
    if (window_.complete() < decided_.from_step + kGrowEvery - 1) return std::nullopt;
    phase_ = Phase::kRun;
    log("batches are as large as they can be: from here on they follow throughput and bandwidth");
    for (ThroughputSamples& s : samples_) s.set_memory(kRunMemory);
    return run();
  }
  if (window_.newest() + kLatency < decided_.from_step + kGrowEvery) return std::nullopt;
  RateInstruction next = decided_;
  for (size_t r = 0; r < next.batch.size(); ++r) {
    const double larger = 1.5 * static_cast<double>(next.batch[r]);
    next.batch[r] = std::min<int64_t>(std::llround(larger), options_.largest_batch[r]);
  }
  return issue(std::move(next));
}

std::optional<RateInstruction> RateController::run() {
  if (window_.newest() + kLatency < decided_.from_step + kRunEvery) return std::nullopt;
  for (ThroughputSamples& s : samples_) s.fit();
  estimate_bandwidth();
  const BatchObjective objective(throughput(), options_.largest_batch, bandwidth_.mbps(),
                                 options_.sizes, penalty_, senders());
  RateInstruction next = decided_;
  next.batch = search(objective);
  const std::vector<double> batch(next.batch.begin(), next.batch.end());
  next.drop = objective.training_drop(batch);
  if (const double needed = goodput_mbps(options_.sizes, kMostDrop, objective.slowest_s(batch));
      needed > bandwidth_.mbps()) {
    log(fmt::format("B is less than the {:.4g} Mb/s that a drop of {} needs", needed, kMostDrop));
  }
  window_.forget();
  return issue(std::move(next));
}

void RateController::estimate_bandwidth() {
  const TelemetryWindow::Summary s =
      window_.summary(options_.dry_run ? options_.first_step : decided_.from_step);
  const BandwidthEstimate::Measured measured{.receive_mbps = s.receive_mbps,
                                             .wait_part = s.wait_part()};
  std::string how;
  if (bandwidth_.mbps() > 0 && !options_.dry_run) {
    how = bandwidth_.update(measured);
  } else {
    const RateInstruction& now = in_force_.last();
    double slowest_s = 0;
    for (size_t r = 0; r < samples_.size(); ++r) {
      slowest_s =
          std::max(slowest_s, samples_[r].model().backward_s(static_cast<double>(now.batch[r])));
    }
    // A full link is busy for the 1.5 backward passes of a step, whose goodput is of one; and of
    // the drop it is told of SparseSync sends a rank's part (elements_to_send()).
    how = bandwidth_.begin(measured,
                           goodput_mbps(options_.sizes, link_drop(now.drop, senders()), slowest_s),
                           1.5 * senders());
  }
  log(fmt::format("{}; waited {:.4g} ms, computing {:.4g} ms, {} steps", how, s.wait_ms,
                  s.computing_ms, s.steps));
}

bool RateController::is_search_due() const {
  if (searched_step_ < 0 || window_.complete() >= searched_step_ + kSearchEvery) return true;
  const double change = bandwidth_.mbps() / searched_mbps_;
  return change >= options_.jump || change <= 1 / options_.jump;
}

std::vector<std::vector<double>> RateController::starts(const BatchObjective& objective) const {
  if (searched_step_ < 0) {
    return random_starts(objective, kRandomStarts, Rng(options_.seed, "batches"));
  }
  // A slower link wants larger batches.
  const double larger = std::clamp(searched_mbps_ / bandwidth_.mbps(), 0.1, 16.0);
  std::vector<std::vector<double>> starts(2);
  for (size_t r = 0; r < decided_.batch.size(); ++r) {
    const double x = larger * static_cast<double>(decided_.batch[r]);
    const auto most = static_cast<double>(options_.largest_batch[r]);
    starts[0].push_back(std::clamp(x, 1.0, most));
    starts[1].push_back(std::clamp(2 * x, 1.0, most));
  }
  return starts;
}

std::vector<int64_t> RateController::search(const BatchObjective& objective) {
  if (!is_search_due()) return decided_.batch;
  double unexplained = 0;
  for (size_t r = 0; r < samples_.size(); ++r) {
    const std::vector<ThroughputPoint> means = samples_[r].means();
    const ThroughputModel& f = samples_[r].model();
    const double error = relative_error(f, means);
    unexplained = std::max(unexplained, error);
    log(
        fmt::format("rank {}: f(x) = min({:.5g} x / {:.5g}, {:.5g}) rows/s of {} batches, off by "
                    "{:.2g} %",
                    r, f.beta, f.alpha, f.beta, means.size(), 100 * error));
  }
  const std::vector<int64_t> best = best_batch(objective, starts(objective)).batch;
  const Terms least = terms_of(objective, best), now = terms_of(objective, decided_.batch);
  const bool stay =
      searched_step_ >= 0 &&
      (now.j <= kKeepBatch * least.j || (now.imbalance <= std::min(unexplained, kKeepImbalance) &&
                                         now.rate <= kKeepBatch * least.rate));
  const Terms& chosen = stay ? now : least;
  log(fmt::format("batches {}: J {:.5g}, cv {:.2g}, h {:.4g}{}; G_ref {:.4g} Mb/s",
                  fmt::join(stay ? decided_.batch : best, " "), chosen.j, chosen.imbalance,
                  chosen.h,
                  stay ? fmt::format(", stay: J {:.5g} of {}", least.j, fmt::join(best, " ")) : "",
                  objective.reference_mbps()));
  searched_step_ = window_.complete();
  searched_mbps_ = bandwidth_.mbps();
  return stay ? decided_.batch : best;
}

std::optional<RateInstruction> RateController::issue(RateInstruction next) {
  next.from_step = window_.newest() + kLatency;
  decided_ = next;
  log(fmt::format("{}batches {}, drop {:.6g} from step {}", options_.dry_run ? "dry run: " : "",
                  fmt::join(next.batch, " "), next.drop, next.from_step));
  if (options_.dry_run) return std::nullopt;
  in_force_.add(next);
  return next;
}

std::vector<ThroughputModel> RateController::throughput() const {
  std::vector<ThroughputModel> models;
  for (const ThroughputSamples& s : samples_) models.push_back(s.model());
  return models;
}

}  // namespace ndtrain
