// A photo's file from a store that holds it to one whose disk has changed its own: part by part, as
// it is asked for, so that nothing of it is kept here. One part at a time for each store. One
// thread, the service's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "tuner/service/photo_deletions.h"
#include "tuner/service/photo_holders.h"
#include "tuner/service/photo_trash.h"
#include "tuner/service/store_registry.h"

namespace ndtrain::tuner {
using namespace ndp;

class PhotoRelay {
 public:
  struct Ports {
    StoreRegistry& stores;
    const PhotoHolders& holders;
    const PhotoDeletions& deletions;
    const PhotoTrash& trash;
  };
  explicit PhotoRelay(Ports ports) : ports_(ports) {}

  // What is deleted, or in the trash, is given to nobody.
  void wanted(const std::string& store, const wire::PhotoWanted& wanted);
  // By the holder that was asked; another's is left alone.
  void part(const std::string& holder, wire::PhotoPart part);
  void left(const std::string& store);

 private:
  struct Asked {
    wire::PhotoWanted wanted;
    Digest photo{};
    std::string holder;           // that is asked now
    std::set<std::string> tried;  // holders, with that one
    std::string why;              // the last one gave nothing
  };
  using Entry = std::map<std::string, Asked>::iterator;

  std::optional<std::string> next_holder(const std::string& store, const Asked& asked) const;
  void ask(Entry asked);

  const Ports ports_;
  std::map<std::string, Asked> asked_;  // by the store that wants it
};

}  // namespace ndtrain::tuner
