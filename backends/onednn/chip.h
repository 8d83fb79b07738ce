// The processor.
#pragma once

#include <string>

namespace ndtrain::onednn {

std::string chip_name();  // "Intel(R) Xeon(R) Processor"

}  // namespace ndtrain::onednn
