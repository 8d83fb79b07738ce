// The stores that the Tuner knows, over its restarts:
//   stores.json   {"format": 1, "stores": {"attic": {"photos": 100, "last_seen": 1763900000,
//                  "deletions": 3, "drained": false, "collection": "default",
//                  "link": {"up": 1e8, "down": 9e7, "round_trip_s": 0.001,
//                  "measured": 1763900000}, "wrong_features": "store attic makes …"}}}; absent
//                  until there was one; `link` stands where a probe has measured it,
//                  `wrong_features` where that is why the store is drained
// Where there is none, the stores of drained.json are known, which older versions kept.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::tuner {

// What the link to a store carries, as a probe has measured it.
struct LinkSpeed {
  double up = 0, down = 0;  // bytes/s, to the Tuner and from it
  double round_trip_s = 0;
  int64_t measured = 0;  // Unix seconds; 0: never
  bool operator==(const LinkSpeed&) const = default;
};

struct KnownStore {
  uint64_t photos = 0;                                            // that it said it has
  int64_t last_seen = 0;                                          // Unix seconds
  uint64_t deletions = 0;                                         // photos it has let go of
  bool drained = false;                                           // it is given no work
  std::string collection = std::string(ndp::kDefaultCollection);  // that its photos are in
  LinkSpeed link = {};
  std::string wrong_features = {};  // not empty: why it was drained
  bool operator==(const KnownStore&) const = default;
};

Json to_json(const LinkSpeed& link);

class KnownStores {
 public:
  // Throws Error naming the file when it cannot be read or is of another format.
  KnownStores(Fs& fs, std::string directory);

  const std::map<std::string, KnownStore>& all() const { return stores_; }
  // Durable on return, or as it was.
  Status put(const std::string& name, const KnownStore& store);
  Status forget(const std::string& name);
  // Durable with whatever is next, or by write(): the file has all stores in it, so that of very
  // many which come at once not each can have it written.
  void note(const std::string& name, const KnownStore& store);
  bool noted() const { return noted_; }  // and not durable yet
  Status write();

 private:
  Status keep(std::map<std::string, KnownStore> stores);

  Fs& fs_;
  const std::string path_, older_;
  std::map<std::string, KnownStore> stores_;
  bool noted_ = false;
};

}  // namespace ndtrain::tuner
