// How ranks over slow links train: which GradientSync, and what is said of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/sparse/plan/exchange_method.h"

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

// `method` is for slow links.
SlowLinkMethod method_of(const ExchangeMethod& method);

}  // namespace ndtrain::ndp
