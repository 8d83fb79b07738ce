#include "framework/core/file_digest.h"

#include <span>

namespace ndtrain {

Result<Digest> sha256_of_file(Fs& fs, const std::string& path) {
  constexpr size_t kReadAtOnce = size_t{1} << 20;
  const Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
  if (!file.ok()) return file.status();
  Sha256 hash;
  std::string buffer(kReadAtOnce, '\0');
  for (int64_t at = 0;;) {
    const Result<size_t> n = (*file)->read_at(at, std::as_writable_bytes(std::span(buffer)));
    if (!n.ok()) return n.status();
    if (*n == 0) return hash.finish();
    hash.update(buffer.data(), *n);
    at += static_cast<int64_t>(*n);
  }
}

}  // namespace ndtrain
