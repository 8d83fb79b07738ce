// One job in time: a deterministic simulation of stores, link and Tuner over pieces of runs.
// docs/planner.md says what it assumes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tuner/plan_inputs.h"

namespace ndtrain {

enum class Mode : uint8_t {
  kNdpipe,   // stores extract and send features
  kTypical,  // stores send photos, the Tuner does everything
  kSrvP,     // stores send u8 crops
  kSrvC,     // the same compressed
  kIdeal     // the Tuner has all photos: no stores, no network
};
inline constexpr std::array kModes = {Mode::kNdpipe, Mode::kTypical, Mode::kSrvP, Mode::kSrvC,
                                      Mode::kIdeal};
std::string_view name_of(Mode m);  // "ndpipe", "typical", "srv-p", "srv-c", "ideal"

inline constexpr double kInventoryBytes = 36;  // per photo, to the Tuner: digest and label
inline constexpr double kWantedBytes = 4;      // per photo, to the store
inline constexpr double kWireOverhead = 1.05;  // headers of TCP, IP, Ethernet and our own messages
inline constexpr double kBatch = 32;           // photos that an engine hands on at once

struct Timeline {
  double makespan_s = 0;
  double first_run_s = 0;  // when training begins
  // Busy time, of the slower half where a machine has cores and accelerators.
  double busiest_store_s = 0, all_stores_s = 0, tuner_s = 0;
  double link_s = 0;                    // the busier direction of the shared link
  double bytes_up = 0, bytes_down = 0;  // to and from the Tuner, without kWireOverhead
};

// `inputs` are valid; `stores` is not used in kIdeal.
Timeline simulate(const PlanInputs& inputs, const CutCost& cut, Mode mode, int stores, int runs);

// The machines of a mode.
const Machine& store_machine(const PlanCosts& costs, Mode mode);
const Machine& tuner_machine(const PlanCosts& costs, Mode mode);

}  // namespace ndtrain
