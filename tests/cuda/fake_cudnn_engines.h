// What the fake cuDNN tells its record.
#pragma once

#include "tests/cuda/fake_cudnn.h"

namespace ndtrain::fake {

void note_dnn_run(const std::string& what);

}  // namespace ndtrain::fake
