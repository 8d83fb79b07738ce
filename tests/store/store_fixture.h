// What the tests of the segment store share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "framework/core/log.h"
#include "framework/testing/memory_fs.h"
#include "ndp/store/segment_store.h"
#include "tests/support/files.h"

namespace ndtrain::testing_store {
using namespace ndp;

// Thousands of crashes would each say what they cut off.
inline const bool kQuiet = (log::set_level(log::Level::kOff), true);

inline const std::string kDir = "cache";

inline Digest digest(std::string_view name) { return sha256(name); }
inline Digest key(int64_t i) { return sha256("photo " + std::to_string(i)); }

using support::bytes_of;

inline std::unique_ptr<SegmentStore> open_store(Fs& fs, const Clock& clock,
                                                const SegmentOptions& options = {}) {
  return SegmentStore::open(fs, clock, kDir, options).or_throw();
}

inline Status put(SegmentStore& store, const Digest& group, const Digest& k, std::string_view s) {
  return store.put(group, k, {.dtype = DType::kF16, .numerics = s.size()}, bytes_of(s));
}

// The payload, or the name of what went wrong.
inline std::string get(SegmentStore& store, const Digest& group, const Digest& k) {
  std::vector<std::byte> bytes;
  Result<Found> found = store.get(group, k, bytes);
  if (found.ok()) {
    EXPECT_EQ(found->meta.dtype, DType::kF16);
    EXPECT_EQ(found->meta.numerics, bytes.size());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  switch (found.status().code()) {
    case Code::kNotFound:
      return "absent";
    case Code::kCorrupt:
      return "corrupt";
    default:
      return "error: " + found.status().message();
  }
}

inline std::vector<std::string> segment_files(Fs& fs) {
  std::vector<std::string> paths;
  for (const std::string& name : fs.list(kDir).or_throw()) {
    if (segment_number(name)) paths.push_back(join(kDir, name));
  }
  return paths;
}

}  // namespace ndtrain::testing_store
