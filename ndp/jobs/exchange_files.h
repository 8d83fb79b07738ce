// What a training by ranks says of its exchange of gradients.
#pragma once

#include <string>

#include "framework/parallel/plan_tuner.h"
#include "ndp/jobs/run_directory.h"

namespace ndtrain::ndp {

// On one line, by which schedule steps went where `asked` was asked for, what they took, and beside
// it what was predicted where something was.
std::string exchange_line(const std::string& asked, const ExchangeReport& report);

// The last plan as parallel_plan.txt; where it was made from measured costs, these as
// parallel_profile.json, which `ndtrain bench parallel --replay` reads. Throws Error.
void write_exchange(RunDirectory& run, const ExchangeReport& report);

}  // namespace ndtrain::ndp
