#include "tests/support/faulty_vfs.h"

#include <sqlite3.h>

#include <new>
#include <optional>

#include "framework/core/error.h"

namespace ndtrain::support {
namespace {

enum class Call { kRead, kOpen, kMake, kWrite, kChange, kSync };

sqlite3_vfs* below = nullptr;

struct Plan {
  Fault fault = Fault::kIo;
  int64_t left = 0;  // operations until the one that goes wrong; 0: none does
  bool lasting = false, struck = false, ended = false;
} plan;

bool can_strike(Fault fault, Call call) {
  switch (fault) {
    case Fault::kIo:
      return true;
    case Fault::kNoSpace:
      return call == Call::kMake || call == Call::kWrite;
    case Fault::kReadOnly:
      return call == Call::kMake || call == Call::kWrite || call == Call::kChange;
    case Fault::kTooManyFiles:
      return call == Call::kOpen || call == Call::kMake;
    case Fault::kShortWrite:
    case Fault::kTornWrite:
      return call == Call::kWrite;
    default:
      return false;
  }
}

std::optional<Fault> hit(Call call) {
  if (plan.ended) return Fault::kIo;
  if (plan.left == 0 || !can_strike(plan.fault, call)) return std::nullopt;
  if (plan.left > 1) {
    --plan.left;
    return std::nullopt;
  }
  if (!plan.lasting) plan.left = 0;
  plan.struck = true;
  return plan.fault;
}

// A file; SQLite has room for the one below behind it.
struct FaultyFile {
  sqlite3_file base;

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
sqlite3_file* real_of(sqlite3_file* f) { return reinterpret_cast<FaultyFile*>(f)->real(); }

int write_at(sqlite3_file* f, const void* from, int n, sqlite3_int64 offset) {
  const std::optional<Fault> fault = hit(Call::kWrite);
  const auto half = [&] { return real_of(f)->pMethods->xWrite(real_of(f), from, n / 2, offset); };
  if (!fault) return real_of(f)->pMethods->xWrite(real_of(f), from, n, offset);
  if (fault == Fault::kNoSpace) return SQLITE_FULL;
  if (fault == Fault::kShortWrite) return half() == SQLITE_OK ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  if (fault == Fault::kTornWrite) {
    half();
    plan.ended = true;
  }
  return SQLITE_IOERR_WRITE;
}

// The machine does not go down, so that there is nothing to wait for.
int sync_file(sqlite3_file*, int) {
  if (!hit(Call::kSync)) return SQLITE_OK;
  plan.ended = true;
  return SQLITE_IOERR_FSYNC;
}

const sqlite3_io_methods kFaultyMethods = {
    .iVersion = 2,
    .xClose = [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); },
    .xRead =
        [](sqlite3_file* f, void* to, int n, sqlite3_int64 offset) {
          if (hit(Call::kRead)) return SQLITE_IOERR_READ;
          return real_of(f)->pMethods->xRead(real_of(f), to, n, offset);
        },
    .xWrite = write_at,
    .xTruncate =
        [](sqlite3_file* f, sqlite3_int64 n) {
          if (hit(Call::kChange)) return SQLITE_IOERR_TRUNCATE;
          return real_of(f)->pMethods->xTruncate(real_of(f), n);
        },
    .xSync = sync_file,
    .xFileSize =
        [](sqlite3_file* f, sqlite3_int64* n) {
          if (hit(Call::kRead)) return SQLITE_IOERR_FSTAT;
          return real_of(f)->pMethods->xFileSize(real_of(f), n);
        },
    .xLock = [](sqlite3_file* f, int how) { return real_of(f)->pMethods->xLock(real_of(f), how); },
    .xUnlock = [](sqlite3_file* f,
                  int how) { return real_of(f)->pMethods->xUnlock(real_of(f), how); },
    .xCheckReservedLock =
        [](sqlite3_file* f, int* is) {
          return real_of(f)->pMethods->xCheckReservedLock(real_of(f), is);
        },
    .xFileControl =
        [](sqlite3_file* f, int what, void* argument) {
          return real_of(f)->pMethods->xFileControl(real_of(f), what, argument);
        },
    .xSectorSize = [](sqlite3_file* f) { return real_of(f)->pMethods->xSectorSize(real_of(f)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* f) { return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f)); },
    .xShmMap =
        [](sqlite3_file* f, int page, int bytes, int extend, void volatile** at) {
          if (hit(extend != 0 ? Call::kMake : Call::kOpen)) return SQLITE_IOERR_SHMMAP;
          return real_of(f)->pMethods->xShmMap(real_of(f), page, bytes, extend, at);
        },
    .xShmLock = [](sqlite3_file* f, int offset, int n,
                   int how) { return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, how); },
    .xShmBarrier = [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); },
    .xShmUnmap = [](sqlite3_file* f,
                    int remove) { return real_of(f)->pMethods->xShmUnmap(real_of(f), remove); },
};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* got) {
  FaultyFile& f = *new (file) FaultyFile{.base = {}};
  if (hit((flags & SQLITE_OPEN_CREATE) != 0 ? Call::kMake : Call::kOpen)) return SQLITE_CANTOPEN;
  f.real()->pMethods = nullptr;
  const int result = below->xOpen(below, name, f.real(), flags, got);
  f.base.pMethods = f.real()->pMethods != nullptr ? &kFaultyMethods : nullptr;
  return result;
}

int delete_file(sqlite3_vfs*, const char* name, int) {
  if (hit(Call::kChange)) return SQLITE_IOERR_DELETE;
  return below->xDelete(below, name, 0);
}

int access_file(sqlite3_vfs*, const char* name, int flags, int* result) {
  if (hit(Call::kRead)) return SQLITE_IOERR_ACCESS;
  return below->xAccess(below, name, flags, result);
}

}  // namespace

void FaultyVfs::install() {
  static sqlite3_vfs vfs = [] {
    below = sqlite3_vfs_find(nullptr);
    sqlite3_vfs v = *below;  // whose other functions and their data stay
    v.zName = "ndt-faulty";
    v.szOsFile += static_cast<int>(sizeof(FaultyFile));
    v.xOpen = open_file;
    v.xDelete = delete_file;
    v.xAccess = access_file;
    v.pNext = nullptr;
    return v;
  }();
  if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK) throw Error("FaultyVfs: cannot be registered");
}

void FaultyVfs::strike(int64_t n, Fault fault, bool lasting) {
  plan = {.fault = fault, .left = n, .lasting = lasting};
}

bool FaultyVfs::struck() { return plan.struck; }

}  // namespace ndtrain::support
