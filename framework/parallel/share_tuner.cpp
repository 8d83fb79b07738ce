#include "framework/parallel/share_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/parallel/measured_costs.h"

namespace ndtrain {
std::string text_of(std::span<const RankShare> shares) {
  int all = 0;
  for (const RankShare& s : shares) all += s.shards;
  std::string text;
  for (const RankShare& s : shares) {
    text += text.empty() ? fmt::format("shares: rank {} does {} of {} shards ({:.2g} s a shard)",
                                       s.rank, s.shards, all, s.shard_s)
                         : fmt::format(", rank {} {} ({:.2g} s)", s.rank, s.shards, s.shard_s);
  }
  return text;
}

ShareTuner::ShareTuner(TimedSync& timed, Communicator& communicator, std::vector<int> first_shards,
                       Options options)
    : timed_(timed),
      communicator_(communicator),
      first_shards_(std::move(first_shards)),
      options_(std::move(options)) {}

void ShareTuner::say(const std::string& line) const {
  if (communicator_.rank() == 0 && options_.say) options_.say("shares: " + line);
}

void ShareTuner::leave(const std::string& why) {
  say(why);
  done_ = true;
}

void ShareTuner::begin(const PlanTuner::Place& at) {
  const int64_t ranks = std::ssize(first_shards_) - 1;
  if (ranks == 1) return leave("one rank does all shards");
  if (first_shards_.back() == ranks) {
    return leave(fmt::format(
        "each of {} ranks does one of {} shards, so that none can be moved: more --shards, fixed "
        "when a run begins, let them be balanced",
        ranks, ranks));
  }
  const int64_t least = std::min<int64_t>(PlanTuner::kLeastSteps, options_.steps);
  const int64_t all = std::clamp<int64_t>(at.left / PlanTuner::kShareOfRun, least, options_.steps);
  if (all >= at.left) {
    return leave(fmt::format("{} steps are too few to measure what a shard takes: they stay equal",
                             at.left));
  }
  timed_.restart(0, static_cast<int>(all));
  until_ = at.step + all;
}

void ShareTuner::after_step(const PlanTuner::Place& at) {
  if (until_ < 0) return begin(at);
  if (at.step < until_) return;
  timed_.flush();
  const std::vector<StepTimes> all = gather_times(communicator_, timed_.times());
  std::vector<double> measured;
  for (size_t r = 0; r < all.size(); ++r) {
    const double shard_s = all[r].passes_s() / (first_shards_[r + 1] - first_shards_[r]);
    if (all[r].steps == 0 || !(shard_s > 0)) {
      return leave(fmt::format("no step of rank {} could be timed: they stay equal",
                               communicator_.members()[r]));
    }
    measured.push_back(shard_s);
  }
  shard_s_ = std::move(measured);
  done_ = true;
}

}  // namespace ndtrain
