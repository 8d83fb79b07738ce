// The one way a finished file appears: temporary file, fsync, rename, fsync the directory. Readers
// see the old bytes or the new ones, never a part. An fsync that fails ends the process (fsync.h).
//
// Temporary files of processes that died are removed when a program first publishes into their
// directory. Each is locked while its publisher lives, so nobody else's is touched; where the file
// system knows no locks, none is removed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/fs.h"

namespace ndtrain {

class Publisher {
 public:
  // Writes go to a temporary file beside `path`, whose directory must exist. `mode` says who may
  // read it: kCreate or kCreatePrivate.
  static Result<Publisher> start(Fs& fs, std::string path, Fs::Mode mode = Fs::Mode::kCreate);
  Publisher(Publisher&&) = default;
  Publisher& operator=(Publisher&&) = delete;
  ~Publisher();  // removes the temporary file unless commit() succeeded

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view bytes) { return write(std::as_bytes(std::span(bytes))); }
  Status commit();

 private:
  Publisher(Fs& fs, std::string path, std::string temporary, std::unique_ptr<File> file);

  Fs* fs_;
  std::string path_, temporary_;
  std::unique_ptr<File> file_;
};

Status publish(Fs& fs, const std::string& path, std::string_view bytes,
               Fs::Mode mode = Fs::Mode::kCreate);

// Whether a file of this name is somebody's temporary file.
bool is_temporary(std::string_view name);
// Removes those whose publishers are gone; what it cannot remove it leaves.
void sweep_temporaries(Fs& fs, const std::string& directory);

}  // namespace ndtrain
