#include "tests/comm/transports.h"

namespace ndtrain::comm_tests {

std::vector<TransportKind> transport_kinds() {
  return {{"Memory", memory_transports},
          {"Linked", linked_transports},
          {"Streams",
           [](int ranks) {
             MemoryNet net;  // streams outlive it
             return stream_transports(net, "rank", ranks);
           }},
          {"Tcp", [](int ranks) { return stream_transports(real_net(), "127.0.0.1", ranks); }},
          {"Tls", tls_transports},
          {"Plugin", [](int ranks) { return plugin_transports(FakeWorld(ranks), ranks); }},
          {"LatePlugin", [](int ranks) {
             const FakeWorld world(ranks);
             world.set({.late = 5});
             return plugin_transports(world, ranks);
           }}};
}

}  // namespace ndtrain::comm_tests
