// A file system that counts what is written to it.
#pragma once

#include "tests/sim/forwarding_fs.h"

namespace ndtrain::sim {

class CountingFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;

  uint64_t files_written = 0, bytes_written = 0;

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
    if (!file.ok()) return file;
    files_written += mode == Mode::kRead ? 0 : 1;
    return std::unique_ptr<File>(std::make_unique<Counted>(*this, std::move(*file)));
  }

 private:
  class Counted final : public ForwardingFile {
   public:
    Counted(CountingFs& fs, std::unique_ptr<File> file)
        : ForwardingFile(std::move(file)), fs_(fs) {}

    Status append(std::span<const std::byte> bytes) override {
      fs_.bytes_written += bytes.size();
      return ForwardingFile::append(bytes);
    }

   private:
    CountingFs& fs_;
  };
};

}  // namespace ndtrain::sim
