// What `ndtrain plan` prints.
#pragma once

#include <span>
#include <string>

#include "cli/context.h"
#include "tuner/plan/plan_sweep.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

std::string bits_text(double bytes_per_second);  // "20 Mbit/s"

std::string prediction_table(std::span<const Prediction> predictions, size_t most);
Json to_json(const Prediction& p);

// Every input with where it is from.
std::string input_table(Profile profile);

// Ratios over store counts and bandwidths; where the claims lie.
std::string sweep_table(std::span<const SweepPoint> points);
std::string claim_lines(const Profile& profile, std::span<const SweepPoint> points);
std::string sensitivity_table(const SweepPoint& as_is, std::span<const Sensitivity> all);
Json to_json(const SweepPoint& p);

}  // namespace ndtrain::cli
