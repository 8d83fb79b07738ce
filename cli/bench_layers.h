// What a network's layers cost one by one, and what this machine could do at best.
#pragma once

#include <string>
#include <vector>

#include "framework/runtime/backend.h"

namespace ndtrain::cli {

// Nodes that ask for the same work.
struct Layer {
  size_t node;    // the first of them
  int count = 0;  // how many
  double operations = 0;
  double seconds = 0;   // the fastest of all devices, alone, inputs lying as it wants them
  std::string fastest;  // that device's backend
};

// Every layer with sums in it, timed on each device for `seconds` at most.
std::vector<Layer> time_layers(const Graph& g, const std::vector<const Device*>& devices,
                               double seconds);

}  // namespace ndtrain::cli
