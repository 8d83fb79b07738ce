// The onednn plugin under test, and the layouts it is asked in.
#pragma once

#include <optional>

#include "tests/runtime/kernel_cases.h"

namespace ndtrain {

// Fails the test and returns null when it is not in $NDTRAIN_BACKEND_PATH.
Plugin* onednn();
int channel_block();  // of this processor, or of what ONEDNN_MAX_CPU_ISA makes of it

enum class Start { kPlain, kBlocked, kLast };
inline constexpr Start kStarts[] = {Start::kPlain, Start::kBlocked, Start::kLast};

// Where the values lie before the plugin is asked: images and features as `start` says, the rest
// plain.
Ports ports_from(const NodeRun& node, Start start);

}  // namespace ndtrain
