// How ranks that were started apart find each other: rank 0 listens, the others dial it, say who
// they are, and are told where the others listen; then each rank dials those below it.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "framework/comm/fingerprint.h"
#include "framework/core/clock.h"
#include "framework/core/net.h"

namespace ndtrain {

// What a process knows of its run before it has met the others.
struct RankPlace {
  int rank = 0, ranks = 1;
  uint32_t generation = 0;
  Fingerprint fingerprint;
  std::string rendezvous;  // where rank 0 listens
  // Where another rank does; without a host, at all its addresses. "": nowhere, which takes
  // `relay`.
  std::string listen = ":0";
  // Ranks above it reach it by rank 0 (rank_relay.h), but for those of its site, where it has one
  // and listens.
  bool relay = false;
  std::string site = {};
  std::chrono::milliseconds patience{60'000};  // until all are there
  std::stop_token stop = {};                   // which ends it, where it is requested
};

// A stream to each other rank, in its place; none for this one. Who is no rank of this run (another
// count of ranks, generation or fingerprint, or a rank that is there already) is told why and gets
// kUnsupported; rank 0 goes on waiting, and says whom it refused when its patience ends
// (kCancelled). Nobody is held up by who comes and says nothing. kCancelled, too, where rank 0 does
// not listen in time, and an error of some kind within a moment of a stop; kCorrupt where somebody
// is there who is no rank. Throws Error where `place` cannot be.
Result<std::vector<std::unique_ptr<Stream>>> meet_ranks(Net& net, const RankPlace& place,
                                                        Clock& clock = system_clock());

// What rank 0 hears besides.
struct RankArrivals {
  std::vector<int> absent;   // who has not come, where it failed for that
  bool is_to_relay = false;  // some ranks reach each other by rank 0 alone
};

// The same where rank 0 listens already.
Result<std::vector<std::unique_ptr<Stream>>> receive_ranks(Listener& listener,
                                                           const RankPlace& place,
                                                           Clock& clock = system_clock(),
                                                           RankArrivals* arrivals = nullptr);

}  // namespace ndtrain
