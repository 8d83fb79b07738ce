#include "framework/sparse/plan/method_forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/core/error.h"
#include "framework/parallel/replay_network.h"
#include "framework/parallel/schedules/schedules.h"
#include "framework/parallel/simulate.h"
#include "framework/sparse/plan/steps_factor.h"

namespace ndtrain {
namespace {

// Of the search of `auto`: more find little.
constexpr int kEvaluations = 400;
constexpr int64_t kBlock = 16;  // elements, of threshold-v16
// Bytes of TCP that an Ethernet frame of 1514 carries, with time stamps.
constexpr double kPayload = 1448.0 / 1514.0;
constexpr double kFloatBytes = 4;

double bytes_of(ValueCoding wire, double elements) {
  return static_cast<double>(value_bytes(static_cast<uint64_t>(elements), wire));
}

class Forecaster {
 public:
  explicit Forecaster(const TrainingCosts& costs)
      : costs_(costs), ranks_(costs.step.ranks), tensors_(elements_of(costs)) {
    for (const int64_t n : tensors_) elements_ += static_cast<double>(n);
    for (const CostProfile::Layer& l : costs.step.layers) passes_s_ += l.forward_s + l.backward_s;
    update_s_ = costs.step.optimizer_s_per_element * elements_;
  }

  static std::vector<int64_t> elements_of(const TrainingCosts& costs) {
    std::vector<int64_t> elements;
    for (const Shape& shape : costs.tensors) elements.push_back(shape.count());
    if (!elements.empty()) return elements;
    for (const CostProfile::Layer& l : costs.step.layers) {
      if (l.elements > 0) elements.push_back(l.elements);
    }
    return elements;
  }

  MethodForecast of(const std::string& schedule) const {
    const CommPlan plan = make_comm_plan(schedule, costs_.step, {.evaluations = kEvaluations});
    const StepPrediction p = simulate(plan, costs_.step);
    return {.step_s = p.step_s,
            .computing_s = p.computing_s,
            .exposed_s = p.exposed_s,
            .sent_bytes = 2 * kFloatBytes * elements_ / ranks_};
  }

  MethodForecast of(const SparseSyncOptions& options, int64_t drain_every) const {
    const ExchangeWork& work = costs_.work;
    const Sent sent = selections(options);
    const double all = static_cast<double>(ranks_) * sent.elements;
    const double apply_s = std::min(all, elements_) * work.update_s;
    const double own_s = elements_ * work.add_s + apply_s;
    const double beside_s = elements_ * choose_s(options.compressor) +
                            sent.elements * work.encode_s + all * work.decode_s;
    const double gather_s = gathered_s(sent.bytes);
    MethodForecast f{.work_s = own_s + beside_s, .sent_bytes = sent.bytes};
    f.computing_s = passes_s_;
    if (options.staleness == 0) {
      f.step_s = passes_s_ + vote_s() + own_s + beside_s + gather_s;
    } else {
      const double computing = passes_s_ + vote_s() + own_s + beside_s / costs_.threads;
      const double exchanging = beside_s + gather_s;
      const auto drained = static_cast<double>(std::min(drain_every, costs_.epoch_steps));
      f.step_s = std::max(computing, exchanging) + std::min(computing, exchanging) / drained;
    }
    return with_exposed(f);
  }

  MethodForecast of(const PowerSgdOptions& options) const {
    if (costs_.tensors.empty()) {
      throw Error("powersgd: shapes of the parameters are not known; give the model");
    }
    const ExchangeWork& work = costs_.work;
    double p = 0, q = 0, matrices = 0;
    for (const Shape& shape : costs_.tensors) {
      const int64_t n = shape.count();
      const int64_t rows = shape.rank() < 2 ? 0 : shape[0];
      const int64_t columns = rows == 0 ? 0 : n / rows;
      if (rows == 0 || (rows + columns) * options.rank >= n) {
        p += static_cast<double>(n);  // travels whole
        continue;
      }
      p += static_cast<double>(rows * options.rank);
      q += static_cast<double>(columns * options.rank);
      matrices += static_cast<double>(n);
    }
    const double element_bytes = static_cast<double>(size_of(options.wire));
    MethodForecast f{.sent_bytes = 2 * (p + q) * element_bytes / ranks_};
    f.computing_s = passes_s_ + update_s_;
    f.work_s = matrices * (2 * work.add_s + options.rank * work.column_s);
    f.step_s = f.computing_s + f.work_s + vote_s() + all_reduced_s(p * element_bytes) +
               (q > 0 ? all_reduced_s(q * element_bytes) : 0);
    return with_exposed(f);
  }

  MethodForecast of(const LocalStepsOptions& options, int64_t drain_every) const {
    const double step_s = passes_s_ + update_s_;
    const double fragments = options.fragments;
    const Agreement whole = agreement(options, 1), part = agreement(options, 1 / fragments);
    const double hidden_s = static_cast<double>(options.overlap) * step_s;
    MethodForecast f{.computing_s = step_s};
    double seconds = 0, work = 0, bytes = 0;
    for (int64_t left = costs_.epoch_steps; left > 0; left -= drain_every) {
      const int64_t steps = std::min(left, drain_every);
      const double agreed = agreements_within(options, steps);
      const double work_s = agreed * part.work_s + whole.work_s;
      const double computing = static_cast<double>(steps) * step_s + work_s;
      const double waiting = agreed * std::max(0.0, part.link_s - hidden_s) + whole.link_s;
      seconds += std::max(computing + waiting, agreed * part.link_s + whole.link_s);
      work += work_s;
      bytes += agreed * part.bytes + whole.bytes;
    }
    const auto steps = static_cast<double>(costs_.epoch_steps);
    f.step_s = seconds / steps;
    f.work_s = work / steps;
    f.sent_bytes = bytes / steps;
    return with_exposed(f);
  }

  SelectionSizes sizes() const { return {.elements = tensors_}; }

 private:
  struct Sent {
    double elements = 0, bytes = 0;  // of a rank
  };
  struct Agreement {
    double link_s = 0, work_s = 0, bytes = 0;
  };

  // Votes on a step before anything of it is kept.
  double vote_s() const { return costs_.step.all_reduce.alpha_s; }
  double all_reduced_s(double bytes) const {
    return costs_.step.all_reduce.alpha_s + costs_.step.all_reduce.beta_s_per_byte * bytes;
  }
  // Each rank's so many bytes, to all others.
  double gathered_s(double bytes) const {
    return costs_.step.all_gather.alpha_s + costs_.step.all_gather.beta_s_per_byte * bytes * ranks_;
  }

  double choose_s(std::string_view compressor) const {
    return compressor == "topk" ? costs_.work.sort_s : costs_.work.choose_s;
  }

  static MethodForecast with_exposed(MethodForecast f) {
    f.exposed_s = std::max(0.0, f.step_s - f.computing_s - f.work_s);
    return f;
  }

  Sent selected(const Compressor& compressor, bool blocks, bool known, double drop,
                ValueCoding wire) const {
    Sent sent;
    for (const int64_t n : tensors_) {
      if (compressor.takes_all()) {
        sent.elements += static_cast<double>(n);
        sent.bytes += std::ceil(static_cast<double>(n) / 8) + bytes_of(wire, 1);
        continue;
      }
      const int64_t k = elements_to_send(n, drop, ranks_);
      const double indices =
          known    ? 0
          : blocks ? expected_index_bytes((n + kBlock - 1) / kBlock, (k + kBlock - 1) / kBlock)
                   : expected_index_bytes(n, k);
      sent.elements += static_cast<double>(k);
      sent.bytes += indices + bytes_of(wire, static_cast<double>(k));
    }
    return sent;
  }

  Sent selections(const SparseSyncOptions& options) const {
    const auto compressor = make_compressor(options.compressor);
    return selected(*compressor, options.compressor == "threshold-v16",
                    compressor->indices_are_known(), options.drop, options.wire);
  }

  // Of a part of the parameters.
  Agreement agreement(const LocalStepsOptions& options, double part) const {
    const ExchangeWork& work = costs_.work;
    Agreement a{.work_s = part * elements_ * work.outer_s};
    const auto type = float_type_of(options.wire);
    if (options.compressor.empty() && type) {
      const double bytes = part * elements_ * static_cast<double>(size_of(*type));
      a.link_s = all_reduced_s(bytes);
      a.bytes = 2 * bytes / ranks_;
      return a;
    }
    Sent sent{.elements = elements_, .bytes = bytes_of(options.wire, elements_)};
    if (!options.compressor.empty()) {
      const auto compressor = make_compressor(options.compressor);
      sent = selected(*compressor, options.compressor == "threshold-v16", false, options.drop,
                      options.wire);
    }
    a.bytes = part * sent.bytes;
    a.link_s = gathered_s(a.bytes);
    a.work_s += part * (elements_ * (work.add_s + choose_s(options.compressor)) +
                        sent.elements * (work.encode_s + ranks_ * work.decode_s));
    return a;
  }

  // Of fragments, within so many steps at whose end all agree.
  static double agreements_within(const LocalStepsOptions& options, int64_t steps) {
    const int64_t inner = options.inner_steps;
    double all = 0;
    for (int f = 0; f < options.fragments; ++f) {
      const int64_t offset = inner * (f + 1) / options.fragments;
      if (offset >= steps) continue;
      const int64_t times = (steps - 1 - offset) / inner + 1;
      all += static_cast<double>(times);
    }
    return all;
  }

  const TrainingCosts& costs_;
  const int ranks_;
  const std::vector<int64_t> tensors_;
  double elements_ = 0, passes_s_ = 0, update_s_ = 0;
};

void check(const TrainingCosts& costs) {
  validate(costs.step);
  validate(costs.work);
  if (costs.step.ranks < 2) throw Error("forecast: ", costs.step.ranks, " ranks exchange nothing");
  if (costs.threads < 1) throw Error("forecast: ", costs.threads, " threads of a rank");
  if (costs.epoch_steps < 1) throw Error("forecast: an epoch of ", costs.epoch_steps, " steps");
  if (costs.tensors.empty()) return;
  double elements = 0;
  for (const Shape& shape : costs.tensors) elements += static_cast<double>(shape.count());
  const auto planned = static_cast<double>(costs.step.parameter_count());
  // Layers may have padding.
  constexpr double kOff = 0.02, kPadding = 64;
  if (std::abs(planned - elements) >
      kOff * elements + kPadding * static_cast<double>(costs.tensors.size())) {
    throw Error("forecast: layers have ", costs.step.parameter_count(),
                " elements, trained parameters ", static_cast<int64_t>(elements),
                "; they are not of the same model, or not of the same --freeze");
  }
}

}  // namespace

MethodForecast forecast_step(const ExchangeMethod& method, const TrainingCosts& costs) {
  check(costs);
  const Forecaster forecaster(costs);
  MethodForecast f;
  if (const auto* sparse = std::get_if<SparseSyncOptions>(&method.options)) {
    f = forecaster.of(*sparse, method.drain_every);
  } else if (const auto* low_rank = std::get_if<PowerSgdOptions>(&method.options)) {
    f = forecaster.of(*low_rank);
  } else if (const auto* local = std::get_if<LocalStepsOptions>(&method.options)) {
    f = forecaster.of(*local, method.drain_every);
  } else {
    f = forecaster.of(method.sync);
  }
  f.method = method;
  return f;
}

std::vector<MethodForecast> forecast(std::span<const ExchangeMethod> methods,
                                     const TrainingCosts& costs, const LossPenalty* penalty) {
  std::vector<MethodForecast> all;
  for (const ExchangeMethod& method : methods) {
    MethodForecast f = forecast_step(method, costs);
    StepsFactor factor = penalty == nullptr ? assumed_steps_factor(method)
                                            : measured_steps_factor(
                                                  method, *penalty, static_cast<double>(costs.rows),
                                                  Forecaster(costs).sizes(), costs.step.ranks);
    f.steps_factor = factor.factor;
    f.source = std::move(factor.source);
    all.push_back(std::move(f));
  }
  std::ranges::stable_sort(all, {}, &MethodForecast::seconds_to_accuracy);
  return all;
}

void set_link(double bytes_per_s, double latency_s, int ranks, CostProfile& costs) {
  std::vector<int> first_shards;
  for (int r = 0; r <= ranks; ++r) first_shards.push_back(r);
  costs.ranks = ranks;
  set_collectives({.latency_s = latency_s, .bytes_per_s = bytes_per_s * kPayload}, first_shards,
                  costs);
}

double link_bytes_per_s(const CostProfile& costs) {
  const double beta = costs.all_gather.beta_s_per_byte;
  if (beta <= 0) return std::numeric_limits<double>::infinity();
  return (costs.ranks - 1) / (beta * costs.ranks) / kPayload;
}

}  // namespace ndtrain
