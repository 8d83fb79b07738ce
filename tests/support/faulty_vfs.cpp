#include "tests/support/faulty_vfs.h"

#include <sqlite3.h>

#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/publish.h"

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
    case Fault::kSyncLost:
      return call == Call::kSync;
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

// What the disk has for certain, and what was done to the file since.
struct Durable {
  struct Change {
    sqlite3_int64 offset = 0;
    std::string bytes;
    bool truncates = false;  // to `offset`
  };
  bool there = false;
  std::string bytes;
  std::vector<Change> changes;

  void apply(const Change& c, size_t n) {
    const auto at = static_cast<size_t>(c.offset);
    if (c.truncates) return bytes.resize(at);
    if (bytes.size() < at + n) bytes.resize(at + n);
    bytes.replace(at, n, c.bytes, 0, n);
  }
};

struct Losses {
  bool kept = false;
  std::map<std::string, Durable> files;
} losses;

Durable* durable(const std::string& name) {
  if (!losses.kept || name.empty() || plan.ended) return nullptr;
  const auto [at, is_new] = losses.files.try_emplace(name);
  if (is_new && real_fs().exists(name)) {
    at->second.there = true;
    at->second.bytes = real_fs().read(name).or_throw();
  }
  return &at->second;
}

void write_down(const std::string& name, const void* from, int n, sqlite3_int64 offset) {
  if (Durable* file = durable(name)) {
    file->changes.push_back({offset, {static_cast<const char*>(from), static_cast<size_t>(n)}});
  }
}

void has_synced(const std::string& name) {
  Durable* file = durable(name);
  if (!file) return;
  file->there = true;
  for (const Durable::Change& c : file->changes) file->apply(c, c.bytes.size());
  file->changes.clear();
}

// A file; SQLite has room for the one below behind it.
struct FaultyFile {
  sqlite3_file base;
  const char* name;  // SQLite's, as long as it is open; null: a temporary one

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
sqlite3_file* real_of(sqlite3_file* f) { return reinterpret_cast<FaultyFile*>(f)->real(); }
std::string name_of(sqlite3_file* f) {
  const char* const name = reinterpret_cast<FaultyFile*>(f)->name;
  return name ? name : "";
}

int write_at(sqlite3_file* f, const void* from, int n, sqlite3_int64 offset) {
  const std::optional<Fault> fault = hit(Call::kWrite);
  const auto some = [&](int bytes) {
    write_down(name_of(f), from, bytes, offset);
    return real_of(f)->pMethods->xWrite(real_of(f), from, bytes, offset);
  };
  const auto half = [&] { return some(n / 2); };
  if (!fault) return some(n);
  if (fault == Fault::kNoSpace) return SQLITE_FULL;
  if (fault == Fault::kShortWrite) return half() == SQLITE_OK ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  if (fault == Fault::kTornWrite) {
    half();
    plan.ended = true;
  }
  return SQLITE_IOERR_WRITE;
}

// The machine does not go down, so that there is nothing to wait for.
int sync_file(sqlite3_file* f, int) {
  const std::optional<Fault> fault = hit(Call::kSync);
  if (fault == Fault::kSyncLost) return SQLITE_OK;
  if (!fault) {
    has_synced(name_of(f));
    return SQLITE_OK;
  }
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
          if (Durable* file = durable(name_of(f))) file->changes.push_back({n, {}, true});
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
  FaultyFile& f = *new (file) FaultyFile{.base = {}, .name = name};
  if (hit((flags & SQLITE_OPEN_CREATE) != 0 ? Call::kMake : Call::kOpen)) return SQLITE_CANTOPEN;
  f.real()->pMethods = nullptr;
  if (name) (void)durable(name);
  const int result = below->xOpen(below, name, f.real(), flags, got);
  f.base.pMethods = f.real()->pMethods != nullptr ? &kFaultyMethods : nullptr;
  return result;
}

// Its entry is gone at once: what a directory has lost is not simulated.
int delete_file(sqlite3_vfs*, const char* name, int) {
  if (hit(Call::kChange)) return SQLITE_IOERR_DELETE;
  if (losses.kept) losses.files.erase(name);
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

void FaultyVfs::begin_losses() { losses = {.kept = true}; }
void FaultyVfs::forget_losses() { losses = {}; }

void FaultyVfs::lose(Survives survives, Rng& rng) {
  for (auto& [name, file] : losses.files) {
    for (const Durable::Change& c : file.changes) {
      const bool all = survives == Survives::kAll || (c.truncates && rng.next_below(2) == 0);
      if (!all && (survives == Survives::kNothing || c.truncates)) continue;
      file.apply(c, all ? c.bytes.size() : rng.next_below(c.bytes.size() + 1));
      file.there = true;
    }
    std::filesystem::remove(name);
    std::filesystem::remove(name + "-shm");
    if (file.there) publish(real_fs(), name, file.bytes).or_throw();
  }
  losses = {};
}

}  // namespace ndtrain::support
