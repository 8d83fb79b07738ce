// The kinds of Transport that are tested alike.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "framework/comm/link_model.h"
#include "framework/comm/memory_transport.h"
#include "framework/comm/plugin_transport.h"
#include "framework/comm/rendezvous.h"
#include "framework/comm/stream_transport.h"
#include "framework/testing/memory_net.h"
#include "tests/comm/fake_comm_plugin.h"

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

// Ranks that have met over `net`, where "host:0" is an address to listen at.
inline Ranks stream_transports(Net& net, const std::string& host, int ranks,
                               const StreamOptions& options = {}) {
  const auto listener = net.listen(host + ":0").or_throw();
  Ranks all(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const RankPlace place{
          .rank = r, .ranks = ranks, .rendezvous = listener->address(), .listen = host + ":0"};
      auto streams = r == 0 ? receive_ranks(*listener, place) : meet_ranks(net, place);
      all[static_cast<size_t>(r)] = stream_transport(r, std::move(streams).or_throw(), options);
    });
  }
  threads.clear();
  return all;
}

// Over a plugin, whose library moves bytes only while it is called.
inline Ranks plugin_transports(const FakeWorld& world, int ranks,
                               const PluginOptions& options = {
                                   .farewell = std::chrono::milliseconds(20)}) {
  Ranks all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(plugin_transport(FakeWorld::plugin(), world.join(r), options));
  }
  return all;
}

// Each test program that tests them has its own.
std::vector<TransportKind> transport_kinds();

// Over TLS, in loopback.
Ranks tls_transports(int ranks);

}  // namespace ndtrain::comm_tests
