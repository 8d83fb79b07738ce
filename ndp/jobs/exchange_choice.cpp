#include "ndp/jobs/exchange_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "framework/core/error.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/collective_costs.h"
#include "framework/runtime/copy_rate.h"
#include "ndp/jobs/training_costs.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kSchedule = "auto";
constexpr const char* kRanksFlag = "ranks";  // compared by whoever goes on with a run

double number_of(const std::string& text) {
  double x = 0;
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

// A step is over when the slowest rank is done.
void slow_down(TrainingCosts& costs, double times) {
  for (CostProfile::Layer& l : costs.step.layers) {
    l.forward_s *= times;
    l.backward_s *= times;
  }
  costs.step.optimizer_s_per_element *= times;
}

// Gradients of a device with memory of its own come to the host, and parameters go back.
void add_copies(TrainingCosts& costs, const Device& device) {
  if (device.shares_host_memory()) return;
  const CopyRates rates = copy_rates(device);
  for (CostProfile::Layer& l : costs.step.layers) {
    const auto bytes = static_cast<double>(l.elements * CostProfile::kElementBytes);
    l.backward_s += bytes / rates.from_device;
    l.forward_s += bytes / rates.to_device;
  }
}

TrainingCosts measure(Communicator& ranks, const ExchangePlace& place) {
  const int count = ranks.ranks();
  TrainingCosts costs =
      measure_training_costs(place.head, place.trainable, place.trainer, count, place.device,
                             place.clock, [&] { return !place.progress.interrupted(); });
  costs.epoch_steps = place.epoch_steps;
  add_copies(costs, place.device);
  const double own_s = costs.step.computing_s();
  double slowest_s = own_s;
  for (const std::string& said : gather(ranks, fmt::format("{}", own_s))) {
    slowest_s = std::max(slowest_s, number_of(said));
  }
  if (own_s > 0) slow_down(costs, slowest_s / own_s);
  CollectiveCostOptions collectives;
  collectives.most_elements = std::min(collectives.most_elements, costs.step.parameter_count());
  collectives.least_elements = std::min(collectives.least_elements, collectives.most_elements / 4);
  measure_collectives(ranks, place.first_shards, collectives, place.clock, costs.step);
  return costs;
}

std::string link_text(const CostProfile& step) {
  const double bits = 8 * link_bytes_per_s(step);
  const std::string rate = std::isfinite(bits) ? fmt::format("{:.3g} Mb/s", bits / 1e6)
                                               : std::string("more than can be told");
  return fmt::format("{} and {:.2g} ms", rate, step.all_gather.alpha_s * 1e3);
}

// What was taken, and why.
std::string why(const std::vector<MethodForecast>& all, const TrainingCosts& costs) {
  const MethodForecast& first = all.front();
  const auto told = [](const MethodForecast& f) {
    return fmt::format(
        "{:.4g} s for what a step of exact gradients brings ({:.4g} s a step, x "
        "{:.3g} steps: {})",
        f.seconds_to_accuracy(), f.step_s, f.steps_factor, f.source);
  };
  std::string line = fmt::format("auto: {}: {}", first.method.flags(), told(first));
  if (all.size() > 1) {
    line += fmt::format("; next {}: {}", all[1].method.flags(), told(all[1]));
  }
  const auto schedule =
      std::ranges::find_if(all, [](const MethodForecast& f) { return f.method.is_exact(); });
  if (schedule > all.begin() + 1) {
    line += fmt::format("; the best schedule {:.4g} s", schedule->step_s);
  }
  return line + fmt::format("; measured: {:.4g} s of computing, a link of {}",
                            costs.step.computing_s(), link_text(costs.step));
}

}  // namespace

ChosenExchange choose_exchange(Communicator& ranks, const ExchangeChoice& choice,
                               const ExchangePlace& place) {
  const bool leads = ranks.rank() == 0;
  const bool on_device = !place.device.shares_host_memory();
  if (on_device && ranks.collects_on_device()) {
    if (leads) place.progress.say("auto: a schedule, whose sums devices make among themselves");
    return {.word = kSchedule};
  }
  if (leads) place.progress.say("auto: steps and the link are timed, for about 7 seconds");
  const TrainingCosts costs = measure(ranks, place);
  if (!leads) {
    const std::string said = broadcast(ranks, 0, "");
    const size_t tab = said.find('\t');
    const auto number = static_cast<size_t>(number_of(said.substr(0, tab)));
    if (number == choice.candidates.size()) return {.word = kSchedule};
    return {.candidate = number, .word = said.substr(tab + 1)};
  }
  std::vector<ExchangeMethod> methods;
  if (!on_device) methods.push_back(parse_exchange_method(kSchedule));
  for (const ExchangeCandidate& c : choice.candidates) methods.push_back(c.method);
  std::optional<LossPenalty> penalty;
  if (choice.convergence) penalty.emplace(*choice.convergence, place.trainer.seed);
  const std::vector<MethodForecast> all = forecast(methods, costs, penalty ? &*penalty : nullptr);
  place.progress.say(why(all, costs));
  ChosenExchange chosen{.word = all.front().method.text(), .step_s = all.front().step_s};
  const auto at = std::ranges::find(choice.candidates, chosen.word,
                                    [](const ExchangeCandidate& c) { return c.method.text(); });
  const auto number = static_cast<size_t>(at - choice.candidates.begin());
  if (at != choice.candidates.end()) chosen.candidate = number;
  broadcast(ranks, 0, fmt::format("{}\t{}", number, chosen.word));
  return chosen;
}

std::optional<size_t> begun_exchange(const ExchangeChoice& choice, const RunSettings& before) {
  const std::string sync = before.text("sync");
  if (sync.empty()) return std::nullopt;
  // A candidate is also told by what it lacks: without staleness it is another one than with.
  std::set<std::string> flags;
  for (const ExchangeCandidate& c : choice.candidates) {
    for (const auto& [flag, value] : c.settings) flags.insert(flag);
  }
  flags.erase(kRanksFlag);
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const RunSettings candidate{.asked = choice.candidates[i].settings};
    const bool same = std::ranges::all_of(
        flags, [&](const std::string& flag) { return before.text(flag) == candidate.text(flag); });
    if (same) return i;
  }
  throw Error("the run was begun with --sync ", sync,
              ", which --sync auto --allow-lossy would not take: go on with the flags that it was "
              "begun with, which are in its args.toml");
}

}  // namespace ndtrain::ndp
