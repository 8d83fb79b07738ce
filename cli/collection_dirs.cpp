#include "cli/collection_dirs.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cli/args.h"
#include "framework/core/text.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

// "NAME=DIR"; nullopt: a directory alone, also one with "=" in its name.
std::optional<HostedCollection> collection_in(Fs& fs, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0 || text.substr(0, equals).find('/') != text.npos ||
      fs.exists(text)) {
    return std::nullopt;
  }
  return HostedCollection{text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

std::vector<HostedCollection> collections_in(Fs& fs, const std::vector<std::string>& photos) {
  std::vector<HostedCollection> collections;
  for (const std::string& text : photos) {
    std::optional<HostedCollection> one = collection_in(fs, text);
    if (!one && photos.size() > 1) {
      throw UsageError("--photos " + text +
                       ": of several each names its collection: --photos NAME=DIR");
    }
    if (!one) continue;
    for (const HostedCollection& other : collections) {
      if (other.collection != one->collection && other.photos != one->photos) continue;
      throw UsageError(
          fmt::format("--photos {} and --photos {}={}: each collection once, and each directory",
                      text, other.collection, other.photos));
    }
    collections.push_back(std::move(*one));
  }
  return collections;
}

void check_collections(const std::vector<HostedCollection>& collections, const std::string& process,
                       const std::string& labels) {
  for (const auto& [name, photos] : collections) {
    if (is_store_name(name) && names_store(store_in_process(name, process))) continue;
    throw UsageError(fmt::format(
        "--photos {}={}: a collection beside others is called by letters, digits, '.', '_' and "
        "'-', not beginning with . or -, and with @{} behind it by at most {} bytes",
        printable(name, 256), photos, process, kStoreNameBytes));
  }
  if (!collections.empty() && labels != "none" && labels != "folder") {
    throw UsageError(fmt::format(
        "--labels {} and --photos {}={}: a file names photos of one directory; of collections "
        "beside each other there are none and folder",
        labels, collections.front().collection, collections.front().photos));
  }
}

}  // namespace ndtrain::cli
