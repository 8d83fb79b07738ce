#include "tests/sim/faults.h"

#include <fmt/format.h>

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Fault::kFaults)> kFaultNames = {
    "break",      "delay",         "partition",   "partition all", "late message", "damaged rows",
    "Tuner kill", "Tuner power",   "Tuner torn",  "Tuner stop",    "store kill",   "store power",
    "store torn", "store stop",    "Tuner full",  "store full",    "photo gone",   "store lost",
    "job paused", "store drained", "Tuner clock", "store clock",   "Tuner asleep", "store asleep",
    "old Tuner",  "twin Tuner"};
constexpr std::array<std::string_view, static_cast<size_t>(Stage::kStages)> kStageNames = {
    "down", "before", "validation", "run 1", "run 2", "publishing", "labelling", "done"};

}  // namespace

std::string_view name_of(Fault fault) { return kFaultNames.at(static_cast<size_t>(fault)); }
std::string_view name_of(Stage stage) { return kStageNames.at(static_cast<size_t>(stage)); }

void Coverage::add(const Coverage& other) {
  for (size_t s = 0; s < counts.size(); ++s) {
    for (size_t f = 0; f < counts[s].size(); ++f) counts[s][f] += other.counts[s][f];
  }
}

std::string Coverage::text() const {
  std::string text = fmt::format("{:14}", "");
  for (const std::string_view stage : kStageNames) text += fmt::format("{:>11}", stage);
  for (size_t f = 0; f < kFaultNames.size(); ++f) {
    text += fmt::format("\n{:14}", kFaultNames[f]);
    for (const auto& stage : counts) text += fmt::format("{:11}", stage[f]);
  }
  return text + "\n";
}

}  // namespace ndtrain::sim
