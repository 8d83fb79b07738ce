// A member as a process: it has a session with the Tuner, and trains when that asks it to.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/runtime/devices.h"
#include "ndp/jobs/model_check.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::tuner {
using namespace ndp;

struct MemberConfig {
  std::string name;  // unique among the members of a Tuner
  // To dial: an address, or with commas between them those of a Tuner and of its standbys.
  std::string tuner = "127.0.0.1:25258";
  std::string state;   // directory
  std::string listen;  // where other members find it; "": any port, of loopback where the Tuner is
  // The Tuner passes on what others and it say to each other, but for those of its site, where it
  // has one and `listen` says where they find it.
  bool relay = false;
  int64_t disk = 0;     // bytes of rows that it keeps; 0: a tenth of the volume
  std::string version;  // of the program
  std::chrono::milliseconds silence{30'000};  // of a rank that is then lost
  std::string site = {};                      // where it is, see sites_of_ranks()
  ModelCheck* check = nullptr;                // borrowed, see MemberSetting
  LinkSecurity security = {};
  // Reads it anew while it serves (SecurityReload); empty: it stays. Throws Error.
  std::function<LinkSecurity()> read_security = {};
};

class MemberDaemon {
 public:
  // Throws Error: the state directory is another's.
  MemberDaemon(const MemberConfig& config, Devices& devices, Fs& fs, Clock& clock);
  ~MemberDaemon();

  // Serves until `stop` is true; a training that it is in goes on without it. Throws Error when the
  // state directory cannot be written any more.
  void run(const std::function<bool()>& stop);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ndtrain::tuner
