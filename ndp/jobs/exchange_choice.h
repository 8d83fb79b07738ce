// --sync auto --allow-lossy: whether ranks train by a schedule, which gives the bytes of one
// process, or by what is for slow links, which gives another model: measured before the training.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/sparse/plan/method_forecast.h"
#include "framework/train/trainer.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/run_settings.h"
#include "ndp/jobs/slow_link_ranks.h"

namespace ndtrain::ndp {

struct ExchangeCandidate {
  ExchangeMethod method;
  SlowLinkConfig config;
  Settings settings;  // what decides its result, as flags
};

struct ExchangeChoice {
  std::vector<ExchangeCandidate> candidates;
  // What drops cost in steps; none: assumed.
  std::optional<ConvergenceProfile> convergence = {};
};

// Of a training that begins.
struct ExchangePlace {
  const Model& head;  // what is trained
  std::span<const std::string> trainable;
  const TrainerConfig& trainer;
  std::vector<int> first_shards;  // rank r has [first_shards[r], first_shards[r + 1])
  int64_t epoch_steps = 1;
  const Device& device;
  Clock& clock;
  Progress& progress;
};

// The candidate that comes to an accuracy first, or none: the schedule "auto" does. All ranks time
// steps on rows of noise and collectives among them, for about seven seconds; rank 0 decides by the
// slowest of them, says what was taken, why, and what came second, and all take the same.
// Collective; nothing else may be under way. Devices with memory of their own have a schedule where
// ranks talk by a library that adds up there, and else the best of the candidates; what copying
// takes is counted.
struct ChosenExchange {
  std::optional<size_t> candidate;
  std::string word;   // ExchangeMethod::text()
  double step_s = 0;  // predicted
};
ChosenExchange choose_exchange(Communicator& ranks, const ExchangeChoice& choice,
                               const ExchangePlace& place);

// What a run was begun with that is gone on with; none: a schedule. Throws Error where it is none
// of the candidates, with what it was.
std::optional<size_t> begun_exchange(const ExchangeChoice& choice, const RunSettings& before);

}  // namespace ndtrain::ndp
