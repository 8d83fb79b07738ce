#include "cli/replay_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "framework/comm/link_model.h"
#include "framework/comm/rendezvous.h"
#include "framework/comm/stream_transport.h"
#include "framework/core/hash.h"
#include "framework/core/limits.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/collective_costs.h"
#include "framework/parallel/cost_profile_json.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain::cli {
namespace {

constexpr int kWarmup = 3;                                // steps
constexpr auto kRankSilence = std::chrono::seconds(30);   // of a rank that is lost
constexpr auto kOperationStall = std::chrono::hours(24);  // of an operation
constexpr double kMeasuringSeconds = 3;
constexpr int64_t kMostMeasured = int64_t{4} << 20, kMeasuredRange = 512;  // elements; of sizes

constexpr std::string_view kSparse = "sparse:";

SparseSyncOptions sparse_named(const std::string& name) {
  const size_t colon = name.find(':', kSparse.size());
  SparseSyncOptions options;
  bool sound = colon != std::string::npos;
  if (sound) {
    const auto number = [&](size_t begin, size_t end, auto& to) {
      const char* const last = name.data() + end;
      const auto [stop, error] = std::from_chars(name.data() + begin, last, to);
      return error == std::errc() && stop == last;
    };
    sound = number(kSparse.size(), colon, options.staleness) &&
            number(colon + 1, name.size(), options.drop) && options.staleness >= 0 &&
            options.staleness <= limits::kSparseStaleness && options.drop >= 0 && options.drop < 1;
  }
  if (sound) return options;
  throw UsageError(
      fmt::format("--sync {}: as sparse:1:0.99, a staleness of 0 to {} and a drop of 0 to below 1",
                  name, limits::kSparseStaleness));
}

std::string text_of(double x) { return fmt::format("{}", x); }

}  // namespace

std::vector<int> ReplaySettings::first_shards() const {
  return shards_of_ranks(shards, std::vector<double>(static_cast<size_t>(ranks), 1.0));
}

std::vector<std::string> ReplaySettings::words() const {
  return {"bench",     "parallel",
          "--replay",  file + "#" + network.name,
          "--ranks",   std::to_string(ranks),
          "--shards",  std::to_string(shards),
          "--steps",   std::to_string(steps),
          "--link",    text_of(link.bytes_per_s * 8),
          "--latency", text_of(link.latency_s),
          "--scale",   text_of(scale.bytes),
          "--stretch", text_of(scale.times),
          "--seed",    std::to_string(seed)};
}

Json ReplaySettings::to_json() const {
  // Of another profile by the same name other figures are true.
  const uint64_t costs = [&] {
    const std::string text = ndtrain::to_json(network.costs);
    return xxh3(text.data(), text.size());
  }();
  return {{"network", network.name},
          {"profile", fmt::format("{:016x}", costs)},
          {"ranks", ranks},
          {"shards", shards},
          {"steps", steps},
          {"link_bytes_per_s", link.bytes_per_s},
          {"latency_s", link.latency_s},
          {"scale", scale.bytes},
          {"stretch", scale.times},
          {"seed", seed}};
}

double ScheduleReplay::mean_s() const {
  return std::accumulate(measured.step_s.begin(), measured.step_s.end(), 0.0) /
         static_cast<double>(measured.step_s.size());
}

double ScheduleReplay::sigma_s() const {
  const double mean = mean_s();
  double squares = 0;
  for (const double s : measured.step_s) squares += (s - mean) * (s - mean);
  return std::sqrt(squares / std::max(1.0, static_cast<double>(measured.step_s.size()) - 1));
}

Json ScheduleReplay::to_json() const {
  return {{"schedule", schedule},
          {"predicted_s", predicted.step_s},
          {"measured_s", mean_s()},
          {"plus_minus_s", 1.96 * sigma_s()},
          {"predicted_exposed_s", predicted.exposed_s},
          {"exposed_s", measured.exposed_s},
          {"bound_s", predicted.bound_s},
          {"computing_s", predicted.computing_s},
          {"parameters", fmt::format("{:016x}", measured.parameters)}};
}

ReplayGroup::ReplayGroup(const ReplaySettings& settings, const ReplayPlace& place, Context& context)
    : settings_(settings) {
  make_timers_exact();  // before there are threads that wait
  communicator_ = meet(place);
  measure(context);
}

ReplayGroup::~ReplayGroup() {
  if (!is_first()) return;
  try {
    broadcast(*communicator_, 0, "");  // there is no more
  } catch (const Error&) {             // they have gone already
  }
}

std::unique_ptr<Communicator> ReplayGroup::meet(const ReplayPlace& place) {
  RankPlace here{.rank = place.rank,
                 .ranks = settings_.ranks,
                 .rendezvous = place.rendezvous,
                 .listen = place.net.listen};
  here.fingerprint = {{"program", NDT_VERSION}, {"replay", json_text(settings_.to_json())}};
  auto streams = [&] {
    if (!place.rendezvous.empty()) return meet_ranks(place.net.net(), here);
    const auto listener = real_net().listen("127.0.0.1:0").or_throw();
    started_.start(settings_.words(), settings_.ranks, listener->address(), 1);
    return receive_ranks(*listener, here);
  }();
  streams.status().or_throw();
  auto tcp = stream_transport(place.rank, std::move(*streams), {.silence = kRankSilence});
  // A rank's link carries what goes to all the others, and is shared among the pairs alike.
  const ReplayLink link = scaled(settings_.link, settings_.scale);
  const double pairs = settings_.ranks - 1;
  return std::make_unique<Communicator>(
      over_link(std::move(tcp),
                {.latency_s = link.latency_s, .bytes_per_s = link.bytes_per_s / pairs}),
      Communicator::Options{.in_flight = 1, .stall = kOperationStall});
}

void ReplayGroup::measure(Context& context) {
  costs_ = scaled(settings_.network.costs, settings_.scale);
  costs_.ranks = settings_.ranks;
  const std::vector<int> first_shards = settings_.first_shards();
  set_collectives(scaled(settings_.link, settings_.scale), first_shards, costs_);
  replay_ = std::make_unique<Replay>(costs_, first_shards, OptimizerConfig(), settings_.seed,
                                     context.device(), *communicator_, context.clock());
  barrier(*communicator_);  // all of them update at once, as in a step
  costs_.optimizer_s_per_element = replay_->optimizer_s_per_element();
  // Up to the largest bucket that there may be.
  const int64_t most = std::min(costs_.parameter_count(), kMostMeasured);
  measure_collectives(*communicator_, first_shards,
                      {.least_elements = std::max<int64_t>(1, most / kMeasuredRange),
                       .most_elements = most,
                       .budget_s = kMeasuringSeconds},
                      context.clock(), costs_);
  const std::string ours = is_first() ? ndtrain::to_json(costs_) : "";
  costs_ = parse_cost_profile(broadcast(*communicator_, 0, ours), "of rank 0");
}

bool is_sparse_exchange(const std::string& name) { return name.starts_with(kSparse); }
void check_sparse_exchange(const std::string& name) { sparse_named(name); }

// No step is shorter than its computing, nor than the link takes for what is sent in it.
ScheduleReplay ReplayGroup::run_sparse(const std::string& name) {
  const SparseSyncOptions options = sparse_named(name);
  ScheduleReplay result{.schedule = name, .predicted = {}, .measured = {}};
  result.measured = replay_->run(
      [&](const Trainer::Shared& shared) {
        auto sync =
            std::make_unique<SparseSync>(shared, *communicator_, settings_.first_shards(), options);
        const SparseSync* const it = sync.get();
        return Replay::Exchange{std::move(sync), [it] { return it->exposed_s(); },
                                [it] { return static_cast<double>(it->sent_bytes()); }};
      },
      kWarmup, settings_.steps);
  const ReplayLink link = scaled(settings_.link, settings_.scale);
  const double others = settings_.ranks - 1;
  const double sending =
      link.bytes_per_s > 0 ? result.measured.sent_bytes * others / link.bytes_per_s : 0;
  double computing = 0;  // updates are a part of what is measured
  for (const CostProfile::Layer& l : costs_.layers) computing += l.forward_s + l.backward_s;
  const double bound = std::max(computing, sending);
  result.predicted.step_s = result.predicted.bound_s = bound;
  result.predicted.exposed_s = bound - computing;
  result.predicted.computing_s = computing;
  return result;
}

ScheduleReplay ReplayGroup::run(const std::string& schedule) {
  if (is_sparse_exchange(schedule)) return run_sparse(schedule);
  const CommPlan plan = replay_plan(schedule, settings_.network.costs, settings_.scale, costs_);
  return {schedule, simulate(plan, costs_), replay_->run(plan, kWarmup, settings_.steps)};
}

ScheduleReplay ReplayGroup::replay(const std::string& schedule) {
  return run(broadcast(*communicator_, 0, schedule));
}

void ReplayGroup::follow() {
  for (;;) {
    const std::string schedule = broadcast(*communicator_, 0, "");
    if (schedule.empty()) return;
    run(schedule);
  }
}

}  // namespace ndtrain::cli
