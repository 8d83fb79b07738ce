// The kinds of Transport that are tested alike.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "framework/comm/memory_transport.h"

namespace ndtrain::comm_tests {

using Ranks = std::vector<std::unique_ptr<Transport>>;

struct TransportKind {
  std::string name;
  std::function<Ranks(int ranks)> make;

  friend std::ostream& operator<<(std::ostream& to, const TransportKind& k) { return to << k.name; }
};

inline std::vector<TransportKind> transport_kinds() { return {{"Memory", memory_transports}}; }

}  // namespace ndtrain::comm_tests
