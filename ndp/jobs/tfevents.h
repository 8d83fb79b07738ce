// Scalars for TensorBoard: TFRecord files of Event protobufs
// (tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto), of which we write
// three fields by hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

// The file's first record: the version every reader expects.
std::string tfevents_header(double wall_time);
std::string tfevents_scalar(double wall_time, int64_t step, std::string_view tag, float value);

}  // namespace ndtrain::ndp
