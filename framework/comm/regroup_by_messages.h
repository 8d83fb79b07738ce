// An agreement (regrouping.h) by the messages of a Transport.
#pragma once

#include <cstdint>
#include <stop_token>

#include "framework/comm/communicator.h"

namespace ndtrain {

// In the thread that makes the transport's calls: begins generation `talk` of the present members,
// and returns when this rank knows the agreement and, where it leads, the others have been told.
// Each rank that is there takes part, or is lost by the transport; else `stop` alone ends the
// waiting, once the transport is woken. Throws RankLost where this rank is not among those who go
// on, and one that is `stalled` where it is asked to stop.
Regrouping::Agreement regroup_by_messages(Transport& transport, uint32_t talk,
                                          Regrouping regrouping, const std::stop_token& stop);

}  // namespace ndtrain
