#include "framework/core/clock.h"
#include "framework/testing/memory_fs.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/store/segment_format.h"
#include "ndp/store/segment_index.h"
#include "ndp/store/segment_store.h"
#include "ndp/wire/digests.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"

namespace ndtrain::fuzz {
namespace {

using namespace ndp;

constexpr const char* kDirectory = "d";

Digest photo(int i) { return sha256("photo " + std::to_string(i)); }

// A directory in which a store has left what it keeps.
MemoryFs& kept_features() {
  static MemoryFs fs;
  static const bool made = [] {
    auto store = SegmentStore::open(fs, system_clock(), kDirectory).or_throw();
    for (int i = 0; i < 3; ++i) {
      store->put(sha256("group"), photo(i), {}, support::bytes_of("feature")).or_throw();
    }
    store->close().or_throw();
    return true;
  }();
  (void)made;
  return fs;
}

std::string file_that(bool is_segment) {
  MemoryFs& fs = kept_features();
  for (const std::string& name : fs.list(kDirectory).or_throw()) {
    if (segment_number(name).has_value() == is_segment && name != "lock") {
      return name;
    }
  }
  throw Error("the store has left no such file");
}

// With `input` in place of one file of the directory; whether the store still has a feature.
bool read_store(const std::string& file, std::string_view input) {
  MemoryFs fs;
  MemoryFs& good = kept_features();
  for (const std::string& name : good.list(kDirectory).or_throw()) {
    const std::string path = join(kDirectory, name);
    support::write_file(fs, path, name == file ? std::string(input) : good.read(path).or_throw());
  }
  auto store = SegmentStore::open(fs, system_clock(), kDirectory);
  if (!store.ok()) return false;
  bool found = false;
  std::vector<std::byte> bytes;
  for (int i = 0; i < 3; ++i) found |= (*store)->get(sha256("group"), photo(i), bytes).ok();
  return found;
}

bool read_segment(std::string_view input) { return read_store(file_that(true), input); }
std::vector<std::string> segments() {
  return {kept_features().read(join(kDirectory, file_that(true))).or_throw()};
}

// A store goes by its segments where the index is none.
bool read_segment_index(std::string_view input) {
  read_store(file_that(false), input);
  MemoryFs fs;
  support::write_file(fs, "index", input);
  return read_index(fs, "index").ok();
}
std::vector<std::string> indices() {
  return {kept_features().read(join(kDirectory, file_that(false))).or_throw()};
}

bool read_uploads(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, join(kDirectory, "log"), input);
  auto log = UploadLog::open(fs, kDirectory);
  if (!log.ok()) return false;
  return (*log)->find(photo(0)).has_value();
}

std::vector<std::string> uploads() {
  MemoryFs fs;
  const auto log = UploadLog::open(fs, kDirectory).or_throw();
  for (int i = 0; i < 3; ++i) {
    wire::Upload line;
    line.set_digest(bytes_of(photo(i)));
    line.set_path("uploads/" + std::to_string(i) + ".jpg");
    log->commit({line}).or_throw();
  }
  return {fs.read(join(kDirectory, "log")).or_throw()};
}

}  // namespace

std::vector<FuzzTarget> store_targets() {
  return {{"segment", read_segment, segments},
          {"segment_index", read_segment_index, indices},
          {"upload_log", read_uploads, uploads}};
}

}  // namespace ndtrain::fuzz
