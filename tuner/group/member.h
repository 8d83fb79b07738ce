// A member's part in one training: it meets the others, gets the head and its shards' rows, and
// does what the Tuner that leads says.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/net.h"
#include "framework/parallel/led_training.h"
#include "framework/runtime/devices.h"
#include "ndp/jobs/model_check.h"

namespace ndtrain::tuner {
using namespace ndp;

struct MemberSetting {
  Fs& fs;
  Clock& clock;
  Devices& devices;
  Net& net;               // between ranks
  std::string directory;  // the head, rows that it was given, gradients not sent yet
  std::string listen;     // where members above it find it; "": nowhere, see `relay`
  int64_t disk = 0;       // bytes of rows; 0: a tenth of the volume
  std::chrono::milliseconds silence{30'000};  // of a rank that is then lost
  std::string site = {};                      // where it is, see sites_of_ranks()
  bool relay = false;                         // the Tuner passes on, see RankPlace
  ModelCheck* check = nullptr;  // of heads from the Tuner; null: they are imported as they are
};

struct TrainingPlace {
  uint64_t training = 0, job = 0;
  int rank = 1, ranks = 2;
  std::string rendezvous;  // where rank 0 listens
};

// Returns when rank 0 has ended the training or has all meet again; when `leaves`, which is asked
// between two waits for other ranks, is true; or when `stop` is requested, by any thread, which
// ends each wait, and is harder on the others. `say` tells people. Throws Error, RankLost where it
// cannot go on.
FollowEnd take_part(const MemberSetting& setting, const TrainingPlace& place,
                    const std::stop_token& stop, const std::function<bool()>& leaves,
                    const std::function<void(const std::string& line)>& say);

// `address` with the host of `other` where it has none of its own.
std::string with_host_of(const std::string& address, const std::string& other);

}  // namespace ndtrain::tuner
