// A disk whose driver says that it has synced and has not.
#pragma once

#include "tests/sim/forwarding_fs.h"

namespace ndtrain::sim {

class LazyFs final : public ForwardingFs {
 public:
  // Syncs only what is asked for; both, and it is as good as `fs`. It must outlive this.
  LazyFs(Fs& fs, bool files, bool directories)
      : ForwardingFs(fs), files_(files), directories_(directories) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
    if (!file.ok() || files_) return file;
    return std::unique_ptr<File>(std::make_unique<LazyFile>(std::move(*file)));
  }

 private:
  class LazyFile final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;

   private:
    Status try_sync() override { return {}; }
  };

  Status try_sync_directory(const std::string& path) override {
    return directories_ ? ForwardingFs::try_sync_directory(path) : Status();
  }

  bool files_, directories_;
};

}  // namespace ndtrain::sim
