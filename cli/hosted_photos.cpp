#include "cli/hosted_photos.h"

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
std::optional<HostedPhotos> one_in(Fs& fs, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 ||
      text.substr(0, equals).find('/') != std::string::npos || fs.exists(text)) {
    return std::nullopt;
  }
  return HostedPhotos{text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

std::vector<HostedPhotos> hosted_photos_in(Fs& fs, const std::vector<std::string>& photos) {
  std::vector<HostedPhotos> several;
  for (const std::string& text : photos) {
    std::optional<HostedPhotos> one = one_in(fs, text);
    if (!one && photos.size() > 1) {
      throw UsageError("--photos " + text + ": of several each has a name: --photos NAME=DIR");
    }
    if (!one) continue;
    for (const HostedPhotos& other : several) {
      if (other.name != one->name && other.directory != one->directory) continue;
      throw UsageError(
          fmt::format("--photos {} and --photos {}={}: each name once, and each directory", text,
                      other.name, other.directory));
    }
    several.push_back(std::move(*one));
  }
  return several;
}

void check_hosted_photos(const std::vector<HostedPhotos>& several, const std::string& process,
                         const std::string& labels) {
  for (const auto& [name, directory] : several) {
    if (is_store_name(name) && names_store(store_in_process(name, process))) continue;
    throw UsageError(fmt::format(
        "--photos {}={}: a name is of letters, digits, '.', '_' and '-', not beginning with . or "
        "-, and with @{} behind it of at most {} bytes",
        printable(name, 256), directory, process, kStoreNameBytes));
  }
  if (!several.empty() && labels != "none" && labels != "folder") {
    throw UsageError(fmt::format(
        "--labels {} and --photos {}={}: a file names photos of one directory; of several there "
        "are none and folder",
        labels, several.front().name, several.front().directory));
  }
}

}  // namespace ndtrain::cli
