// Ranks over streams, as rendezvous.h connects them: TCP, or whatever a Net has.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "framework/comm/transport.h"
#include "framework/core/net.h"

namespace ndtrain {

struct StreamOptions {
  // A peer that nothing comes from for so long is lost. Ranks that have nothing to say say so three
  // times as often.
  std::chrono::milliseconds silence{10'000};
  // Bytes of messages that a peer may send before they are asked for; one that sends more is lost.
  uint64_t most_ahead = uint64_t{1} << 30;
  // How long a transport that is destroyed waits for its peers to have heard all it sent.
  std::chrono::milliseconds farewell{1'000};
};

// `streams[r]` leads to rank r; there is none for `rank` itself. Two threads for each peer move the
// bytes (frame.h), so a peer may send ahead of its receives. A message that came damaged, or out of
// order, ends the connection with kCorrupt; silence with kCancelled. A send is done when the stream
// has taken it. Throws Error where a stream lacks.
std::unique_ptr<Transport> stream_transport(int rank, std::vector<std::unique_ptr<Stream>> streams,
                                            const StreamOptions& options = {});

}  // namespace ndtrain
