// The file that keeps a job's manifest: a map in CBOR (RFC 8949), then its XXH3, 8 bytes. In the
// map "stores", "classes" and "runs", and of each photo, as arrays, "run", "label", "label_time"
// and "holder_counts"; "digests" is one byte string, and "holders" has those of all photos, one
// after the other. It is written part by part: no column is in memory a second time.
#pragma once

#include <memory_resource>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "tuner/ingest/manifest.h"

namespace ndtrain::tuner {
using namespace ndp;

struct SavedManifest {
  Manifest manifest;
  std::vector<std::string> stores;
};

// Publishes it; the directory must exist.
Status write_manifest(Fs& fs, const std::string& path, const Manifest& manifest,
                      const std::vector<std::string>& stores);

// What the map says. Throws where it is none of these, or contradicts itself.
SavedManifest manifest_from(const Json& map, std::pmr::memory_resource* memory);

}  // namespace ndtrain::tuner
