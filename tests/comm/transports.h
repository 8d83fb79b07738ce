// The kinds of Transport that are tested alike.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "framework/comm/link_model.h"
#include "framework/comm/memory_transport.h"

namespace ndtrain::comm_tests {

using Ranks = std::vector<std::unique_ptr<Transport>>;

struct TransportKind {
  std::string name;
  std::function<Ranks(int ranks)> make;

  friend std::ostream& operator<<(std::ostream& to, const TransportKind& k) { return to << k.name; }
};

inline Ranks linked_transports(int ranks) {
  Ranks all;
  for (auto& inner : memory_transports(ranks)) {
    all.push_back(over_link(std::move(inner), {.latency_s = 1e-4, .bytes_per_s = 1e9}));
  }
  return all;
}

inline std::vector<TransportKind> transport_kinds() {
  return {{"Memory", memory_transports}, {"Linked", linked_transports}};
}

}  // namespace ndtrain::comm_tests
