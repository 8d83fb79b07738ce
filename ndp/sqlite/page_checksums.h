// Databases whose pages say themselves whether they are as they were written: a page ends in 8
// bytes of checksum, verified whenever it is read from the file, so that what a disk has changed is
// an error (SQLITE_IOERR_DATA) and no value. The format is that of SQLite's cksumvfs extension
// (https://www.sqlite.org/cksumvfs.html), whose shell reads and writes such files, too; another
// program that writes one leaves pages behind that are taken for damaged. Files whose pages have no
// room for it are read and written as they are. The write-ahead log has checksums of SQLite's own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

struct sqlite3;

namespace ndtrain::ndp::sql {

inline constexpr int kPageChecksumBytes = 8;

// Of a page without its last 8 bytes, whose number is a multiple of 8.
std::array<uint8_t, kPageChecksumBytes> page_checksum(std::span<const uint8_t> page);

// The name of the VFS, for sqlite3_open_v2(): registered on first use. Any thread.
const char* page_checksum_vfs();

// Of a database that was opened by it. A new one gets room on its pages; so does one of an earlier
// program by the VACUUM after this.
void reserve_page_checksums(sqlite3* db);
bool has_page_checksums(sqlite3* db);
// Before pages are copied into a new file from one that has them.
void expect_page_checksums(sqlite3* db);
// Off: pages are read as they are.
void verify_page_checksums(sqlite3* db, bool on);

// What this thread last found, "page 7 of FILE is not as it was written"; "" after that.
std::string take_page_fault();

}  // namespace ndtrain::ndp::sql
