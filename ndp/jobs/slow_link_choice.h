// What ranks do over slow links, by what was asked for.
#pragma once

#include <cstdint>
#include <string>

#include "framework/sparse/plan/exchange_method.h"
#include "framework/train/trainer_config.h"
#include "ndp/jobs/setting_names.h"
#include "ndp/jobs/slow_link_spec.h"

namespace ndtrain::ndp {

struct SlowLinkChoice {
  ExchangeMethod method;  // for slow links
  int64_t verify_every = 0;

  // Momentum is of gradients before they are sent: the optimizer has none.
  bool optimizer_without_momentum() const;
};

// What is trained how, beside `spec`.
struct SlowLinkTask {
  std::string sync;  // is_slow_link()
  const TrainerConfig& trainer;
  // Of a controller, see RateControlOptions.
  bool dry_run = false, passes_apart = false, one_site_waits = false;
};

// Throws Error naming a setting, its value and what there is, where values are out of range, or
// settings do not go together or with the task.
SlowLinkChoice slow_link_of(const SlowLinkSpec& spec, const SlowLinkTask& task,
                            const SettingNames& names);

// Throws Error where something is asked for that `sync`, any, does not have.
void refuse_slow_link_settings(const SlowLinkSpec& spec, const std::string& sync,
                               const SettingNames& names);

}  // namespace ndtrain::ndp
