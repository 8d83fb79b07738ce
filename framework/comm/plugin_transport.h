// Ranks over a communication plugin (comm_abi.h), as MPI is one.
#pragma once

#include <chrono>
#include <memory>

#include "framework/comm/comm_abi.h"
#include "framework/comm/transport.h"

namespace ndtrain {

struct PluginOptions {
  // A peer that nothing comes from for so long is lost. Ranks that have nothing to say say so three
  // times as often, while they poll.
  std::chrono::milliseconds silence{10'000};
  // Bytes of short messages that a peer may send before they are asked for; one that sends more is
  // lost. Long ones stay where they are until then.
  uint64_t most_ahead = uint64_t{1} << 30;
  // How long a transport that is destroyed waits for its peers to leave, too, so that the library
  // can be ended in good order; else it is abandoned (comm_abi.h).
  std::chrono::milliseconds farewell{1'000};
};

// Takes the group over, of which this process is one rank. Short messages are copied into frames
// (frame.h); of long ones a frame announces the length, and the library moves them from where they
// lie to where they go. Libraries move bytes while they are called: poll() calls again and again,
// without a pause at first and then with ever longer ones, up to a millisecond.
//
// What the library has begun it cannot give back. So cancel() and begin_generation() wait until
// peers have taken or sent it; when one does not within `silence`, or is lost in the middle of it,
// the library is called no more, and all connections end: then this process has to end.
//
// Throws Error for a plugin that cannot move messages of the host.
std::unique_ptr<Transport> plugin_transport(const ndt_comm_plugin& plugin, ndt_comm* comm,
                                            const PluginOptions& options = {});

}  // namespace ndtrain
