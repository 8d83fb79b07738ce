#include "ndp/pipestore/fetched_files.h"

#include <span>
#include <vector>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kHeaders = 4096;

Digest group_of_files() { return sha256("files of photos"); }

}  // namespace

std::optional<std::string> FetchedFiles::get(const Digest& photo) {
  std::vector<std::byte> bytes;
  if (!store_.get(group_of_files(), photo, bytes).ok()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void FetchedFiles::keep(const Digest& photo, std::string_view file) {
  const auto bytes = static_cast<int64_t>(file.size()) + kHeaders;
  if (store_.disk_bytes() + bytes > store_.budget_bytes() / 2) return;
  const Status s = store_.put(group_of_files(), photo, {}, std::as_bytes(std::span(file)));
  if (!s.ok() && !failed_.exchange(true)) {
    log::warn("photos are fetched again when they are used: {}", s.message());
  }
}

}  // namespace ndtrain::ndp
