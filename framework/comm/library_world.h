// How ranks that have met begin a world of a library whose memory is devices' (NCCL): each takes a
// device that no other has.
#pragma once

#include <string>

#include "framework/comm/comm_abi.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// What a rank brings. Without `plugin` it cannot take part, and says why.
struct LibraryOffer {
  const ndt_comm_plugin* plugin = nullptr;
  int devices = 0;  // that this process sees
  std::string why_not;
};

struct LibraryPlace {
  int device = 0;  // of this process
  ndt_comm* world = nullptr;
};

// All ranks call it, with nothing under way. The n-th rank of a machine takes the n-th of the
// devices that it sees, again from the first where it sees fewer; `name` is the library's, for
// people. Before the library is asked for a world, which it would wait for without end, all ranks
// know of all: throws the same Error on each where one cannot take part, which is named, or two
// have the same device.
LibraryPlace join_library(Transport& messages, const std::string& name, const LibraryOffer& offer);

}  // namespace ndtrain
