// Which version of an object was listed, or looked at: what is read of it is that one. The newest
// 131,072 objects at least are known, and twice as many at most. One thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

namespace ndtrain::ndp {

class ListedVersions {
 public:
  struct Version {
    std::string etag;
    std::string id;  // "": not known, or the bucket has no versions
  };

  explicit ListedVersions(size_t most = size_t{1} << 17) : most_(most) {}

  // A listing says no id: one that is known of the same ETag stays.
  void put(const std::string& path, Version version);
  std::optional<Version> find(const std::string& path);
  void forget(const std::string& path);

 private:
  using Versions = std::unordered_map<std::string, Version>;

  const size_t most_;
  Versions newest_, older_;  // where one is full it is the older, and what was there is forgotten
};

}  // namespace ndtrain::ndp
