// Lines of a log of uploads.
#pragma once

#include "ndp/wire/wire.pb.h"

namespace ndtrain::wire {

// Nothing is said of the photo, in any task: that it was taken is all that is left.
inline void leave_out_what_is_said(Upload& line) {
  line.clear_task();
  line.clear_version();
  line.clear_extractor();
  line.clear_head();
  line.clear_top();
  line.clear_truth();
}

}  // namespace ndtrain::wire
