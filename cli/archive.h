// Files in a zstd-compressed tar, which `tar --zstd -xf` reads too. The last one in it, SHA256SUMS,
// is what `sha256sum -c` takes: an archive that was cut short, changed or added to does not fit it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/publish.h"

struct archive;

namespace ndtrain::cli {

class ArchiveWriter {
 public:
  // The archive appears at `path` with finish(). Throws Error, as all of it does.
  ArchiveWriter(Fs& fs, const std::string& path);
  ~ArchiveWriter();

  // The first `size` bytes of a file, which may grow meanwhile.
  void add(const std::string& name, File& file, int64_t size);
  void add(const std::string& name, std::string_view bytes);
  void finish();
  int64_t bytes() const { return bytes_; }  // of the archive

 private:
  void header(const std::string& name, int64_t size);
  void data(const void* bytes, size_t n);
  void check(int code) const;

  Publisher publisher_;
  archive* archive_;
  std::string sums_;
  int64_t bytes_ = 0;
  Status failure_;  // of a write below libarchive
};

// Unpacks into `directory`, which must exist, each file durable. Returns their names. Throws Error
// when the archive is not whole; what was unpacked until then stays.
std::vector<std::string> unpack(Fs& fs, const std::string& archive, const std::string& directory);

}  // namespace ndtrain::cli
