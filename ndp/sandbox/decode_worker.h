#pragma once

#include <string_view>

#include "ndp/photos/photo_decoder.h"

namespace ndtrain::ndp {

// What a program is called with to be a decode worker.
inline constexpr std::string_view kDecodeWorker = "decode-worker";

// A decode worker's life: takes its limits, confines itself (confinement.h), and decodes a photo
// after the other by `decoder`, on this thread, until the other end is gone. The process's exit
// status. It does not return to a process that has anything else to do: that is confined for good.
int serve_decoding(PhotoDecoder& decoder = decoder_in_process());

}  // namespace ndtrain::ndp
