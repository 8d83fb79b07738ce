// How ranks over slow links train: which GradientSync, and what is said of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/slow_link_training.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain::ndp {

struct SlowLinkMethod {
  std::string name;  // of --sync
  SlowLinkTraining::MakeSync make;
  // Where steps are under way: SlowLinkTraining::Options.
  int64_t drain_every = SlowLinkTraining::Options{}.drain_every;
  GatherRoute route = GatherRoute::kDirect;  // ranks have to agree on it
  // Sentences for whoever started it, by so many ranks at so many sites.
  std::function<std::vector<std::string>(int ranks, int sites)> what_it_does;
};

// A few elements of each gradient travel.
SlowLinkMethod sparse_method(const SparseSyncOptions& sync, int64_t drain_every);

// Ranks train by themselves, and agree now and then; `name`: local or diloco.
SlowLinkMethod local_method(std::string name, const LocalStepsOptions& options,
                            int64_t drain_every);

// Gradients travel as products of thin matrices.
SlowLinkMethod power_sgd_method(const PowerSgdOptions& options);

}  // namespace ndtrain::ndp
