#include "ndp/sqlite/page_checksums.h"

#include <sqlite3.h>

#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace ndtrain::ndp::sql {
namespace {

constexpr int kHeaderBytes = 100, kReservedAt = 20, kLeastPage = 512;
constexpr int kVerify = 0x6e647401, kExpect = 0x6e647402, kHas = 0x6e647403;  // file controls

thread_local std::string fault;

sqlite3_vfs* real_vfs = nullptr;  // set before ours is registered

// A main database file; SQLite has room for the real one behind it.
struct File {
  sqlite3_file base;
  const char* name;
  bool has, verify;

  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
static_assert(sizeof(File) % alignof(void*) == 0);

File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
sqlite3_file* real(sqlite3_file* file) { return of(file).real(); }

bool is_page(int bytes) {
  return bytes >= kLeastPage && std::has_single_bit(static_cast<unsigned>(bytes));
}

// What the header of a database says of its pages, if these bytes of the file begin with one.
void look_at_header(File& f, const void* bytes, int n, sqlite3_int64 offset) {
  const auto* const b = static_cast<const uint8_t*>(bytes);
  if (offset != 0 || n < kHeaderBytes || std::memcmp(b, "SQLite format 3", 16) != 0) return;
  f.has = b[kReservedAt] == kPageChecksumBytes;
}

std::span<const uint8_t> content(const void* page, int n) {
  return {static_cast<const uint8_t*>(page), static_cast<size_t>(n - kPageChecksumBytes)};
}

int read(sqlite3_file* file, void* to, int n, sqlite3_int64 offset) {
  File& f = of(file);
  const int result = f.real()->pMethods->xRead(f.real(), to, n, offset);
  if (result != SQLITE_OK) return result;
  look_at_header(f, to, n, offset);
  if (!f.has || !f.verify || !is_page(n)) return SQLITE_OK;
  const auto sum = page_checksum(content(to, n));
  if (std::memcmp(static_cast<const uint8_t*>(to) + n - sum.size(), sum.data(), sum.size()) == 0) {
    return SQLITE_OK;
  }
  fault = "page " + std::to_string(offset / n + 1) + " of " + f.name + " is not as it was written";
  return SQLITE_IOERR_DATA;
}

// Another connection may have given the pages room since this one was opened.
void look_again(File& f) {
  uint8_t header[kHeaderBytes];
  if (f.real()->pMethods->xRead(f.real(), header, kHeaderBytes, 0) == SQLITE_OK) {
    look_at_header(f, header, kHeaderBytes, 0);
  }
}

// SQLite keeps nothing in the last bytes of its buffer, and as cksumvfs does, this writes there.
int write(sqlite3_file* file, const void* from, int n, sqlite3_int64 offset) {
  File& f = of(file);
  if (!f.has) look_again(f);
  look_at_header(f, from, n, offset);
  if (f.has && is_page(n)) {
    const auto sum = page_checksum(content(from, n));
    auto* const end = static_cast<uint8_t*>(const_cast<void*>(from)) + n;
    std::memcpy(end - sum.size(), sum.data(), sum.size());
  }
  return f.real()->pMethods->xWrite(f.real(), from, n, offset);
}

int control(sqlite3_file* file, int what, void* argument) {
  File& f = of(file);
  switch (what) {
    case kVerify:
      f.verify = *static_cast<bool*>(argument);
      return SQLITE_OK;
    case kExpect:
      f.has = true;
      return SQLITE_OK;
    case kHas:
      look_again(f);
      *static_cast<bool*>(argument) = f.has;
      return SQLITE_OK;
    default:
      return f.real()->pMethods->xFileControl(f.real(), what, argument);
  }
}

// Without memory mapping, which would go past read(), and without reads of parts of pages.
const sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); },
    .xRead = read,
    .xWrite = write,
    .xTruncate = [](sqlite3_file* f,
                    sqlite3_int64 n) { return real(f)->pMethods->xTruncate(real(f), n); },
    .xSync = [](sqlite3_file* f, int how) { return real(f)->pMethods->xSync(real(f), how); },
    .xFileSize = [](sqlite3_file* f,
                    sqlite3_int64* n) { return real(f)->pMethods->xFileSize(real(f), n); },
    .xLock = [](sqlite3_file* f, int how) { return real(f)->pMethods->xLock(real(f), how); },
    .xUnlock = [](sqlite3_file* f, int how) { return real(f)->pMethods->xUnlock(real(f), how); },
    .xCheckReservedLock =
        [](sqlite3_file* f, int* is) { return real(f)->pMethods->xCheckReservedLock(real(f), is); },
    .xFileControl = control,
    .xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); },
    .xDeviceCharacteristics =
        [](sqlite3_file* f) {
          constexpr int kReadsParts = 0x8000;  // SQLITE_IOCAP_SUBPAGE_READ of newer headers
          return real(f)->pMethods->xDeviceCharacteristics(real(f)) & ~kReadsParts;
        },
    .xShmMap =
        [](sqlite3_file* f, int page, int bytes, int extend, void volatile** at) {
          return real(f)->pMethods->xShmMap(real(f), page, bytes, extend, at);
        },
    .xShmLock = [](sqlite3_file* f, int offset, int n,
                   int how) { return real(f)->pMethods->xShmLock(real(f), offset, n, how); },
    .xShmBarrier = [](sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); },
    .xShmUnmap = [](sqlite3_file* f,
                    int remove) { return real(f)->pMethods->xShmUnmap(real(f), remove); },
};

int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* got) {
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return real_vfs->xOpen(real_vfs, name, file, flags, got);
  File& f = *new (file) File{.base = {}, .name = name, .has = false, .verify = true};
  f.real()->pMethods = nullptr;
  const int result = real_vfs->xOpen(real_vfs, name, f.real(), flags, got);
  // What is not open has no methods, and is not closed.
  f.base.pMethods = f.real()->pMethods != nullptr ? &kMethods : nullptr;
  return result;
}

void tell(sqlite3* db, int what, void* argument) {
  sqlite3_file_control(db, "main", what, argument);
}

}  // namespace

std::array<uint8_t, kPageChecksumBytes> page_checksum(std::span<const uint8_t> page) {
  uint32_t a = 0, b = 0;
  for (size_t i = 0; i + 8 <= page.size(); i += 8) {
    uint32_t words[2];
    std::memcpy(words, &page[i], sizeof words);
    a += words[0] + b;
    b += words[1] + a;
  }
  std::array<uint8_t, kPageChecksumBytes> sum;
  std::memcpy(sum.data(), &a, 4);
  std::memcpy(sum.data() + 4, &b, 4);
  return sum;
}

const char* page_checksum_vfs() {
  static sqlite3_vfs vfs = [] {
    real_vfs = sqlite3_vfs_find(nullptr);
    sqlite3_vfs v = *real_vfs;  // whose other functions and their data stay
    v.zName = "ndt-page-checksums";
    v.szOsFile += static_cast<int>(sizeof(File));
    v.xOpen = open;
    v.pNext = nullptr;
    return v;
  }();
  static const int registered = sqlite3_vfs_register(&vfs, 0);
  return registered == SQLITE_OK ? vfs.zName : nullptr;
}

void reserve_page_checksums(sqlite3* db) {
  int bytes = kPageChecksumBytes;
  tell(db, SQLITE_FCNTL_RESERVE_BYTES, &bytes);
}

bool has_page_checksums(sqlite3* db) {
  bool has = false;
  tell(db, kHas, &has);
  return has;
}

void expect_page_checksums(sqlite3* db) { tell(db, kExpect, nullptr); }
void verify_page_checksums(sqlite3* db, bool on) { tell(db, kVerify, &on); }

std::string take_page_fault() { return std::exchange(fault, {}); }

}  // namespace ndtrain::ndp::sql
