// A library of collectives on a device's memory (NCCL), beside a transport of messages.
#pragma once

#include <memory>

#include "framework/comm/comm_abi.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// Messages are those of `messages`; collectives are those of the plugin, whose group it takes over,
// with the same ranks. What these do is asked again and again while one is under way, so that the
// device and the library are never waited for.
//
// The library cannot tell who is gone, and what waits for one that is ends never. So a peer that
// `messages` loses, or that leaves, ends the collectives, too: ranks leave after a barrier. So do
// cancel() and begin_generation() in the middle of one, for good.
//
// Throws Error where the ranks are others, or the plugin's memory is no device's.
std::unique_ptr<Transport> with_library(std::unique_ptr<Transport> messages,
                                        const ndt_comm_plugin& plugin, ndt_comm* comm);

}  // namespace ndtrain
