#pragma once

#include <string_view>

#include "ndp/photos/photo_decoder.h"

namespace ndtrain::ndp {

// What a program is called with to be a decode worker, and where it finds its end of the socket and
// the window then (worker_channel.h).
inline constexpr std::string_view kDecodeWorker = "decode-worker";
inline constexpr int kWorkerSocket = 3, kWorkerWindow = 4;

// A decode worker's life: takes its limits, confines itself (confinement.h), and decodes a photo
// after the other by `decoder`, on this thread, until the other end is gone. The process's exit
// status. It does not return to a process that has anything else to do: that is confined for good.
int serve_decoding(PhotoDecoder& decoder = decoder_in_process());

}  // namespace ndtrain::ndp
