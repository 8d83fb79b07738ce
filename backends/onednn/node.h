// The reader of nodes and the way of answering, under this plugin's name.
#pragma once

#include "backends/plugin/node.h"

namespace ndtrain::onednn {

using namespace plugin;  // NOLINT(google-build-using-namespace): all of it, here

}  // namespace ndtrain::onednn
