// SQLite's files on a disk of which one operation goes wrong: a VFS in front of the one that there
// is, as FaultyFs is in front of a file system. Below the checksums of our databases.
#pragma once

#include <cstdint>

#include "framework/core/rng.h"
#include "framework/testing/faulty_fs.h"

namespace ndtrain::support {

// That a VFS can have: SQLite renames no file. An fsync that is lost (kSyncLost) changes nothing
// before the machine ends.
inline constexpr Fault kDatabaseFaults[] = {Fault::kIo,         Fault::kNoSpace,
                                            Fault::kReadOnly,   Fault::kTooManyFiles,
                                            Fault::kShortWrite, Fault::kTornWrite};

// One for the whole process. Connections of one thread at a time.
class FaultyVfs {
 public:
  // Before the process opens its first database; all that it opens go through this.
  static void install();

  // The n-th operation from now (1: the next one) that the fault can strike goes wrong; `lasting`:
  // so do all such ones after it. Until heal(), after a torn write or an fsync that has failed, all
  // operations fail: the process has ended.
  static void strike(int64_t n, Fault fault, bool lasting = false);
  static void heal() { strike(0, Fault::kIo); }
  static bool struck();  // since strike()

  // From now on until the next of these or forget_losses(), what is written and not synced is kept
  // apart from what is durable; files that are there are durable.
  static void begin_losses();
  // Power comes back: files hold what was synced, and of each write behind that all, nothing or a
  // part by chance. All connections must be closed, at the latest behind strike()'s end of the
  // process, when nothing that they did meanwhile had any effect. Index files (-shm) are gone.
  enum class Survives { kNothing, kSome, kAll };
  static void lose(Survives survives, Rng& rng);
  static void forget_losses();
};

}  // namespace ndtrain::support
