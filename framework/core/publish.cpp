#include "framework/core/publish.h"

#include <unistd.h>

#include <atomic>

namespace ndtrain {
namespace {

std::string temporary_for(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  // 200: what we add must not push a long name over the file system's limit of 255 bytes.
  const std::string name = "." + name_of_path(path).substr(0, 200) + ".tmp-" +
                           std::to_string(::getpid()) + "-" + std::to_string(++counter);
  return join(parent_of(path), name);
}

}  // namespace

void sync_or_throw(File& file, const std::string& path) {
  if (Status s = file.sync(); !s.ok()) {
    throw FsyncFailed("fsync of ", path, " failed, its state on disk is unknown: ", s.message());
  }
}

Result<Publisher> Publisher::start(Fs& fs, std::string path) {
  std::string temporary = temporary_for(path);
  Result<std::unique_ptr<File>> file = fs.open(temporary, Fs::Mode::kCreate);
  if (!file.ok()) return file.status();
  return Publisher(fs, std::move(path), std::move(temporary), std::move(*file));
}

Publisher::Publisher(Fs& fs, std::string path, std::string temporary, std::unique_ptr<File> file)
    : fs_(&fs), path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

Publisher::~Publisher() {
  if (!file_) return;  // committed, or moved from
  file_.reset();
  // Best effort: a temporary file left behind is harmless, and there is nobody to tell.
  static_cast<void>(fs_->remove(temporary_).ok());
}

Status Publisher::write(std::span<const std::byte> bytes) {
  if (!file_) throw Error("Publisher: write to ", path_, " after commit");
  return file_->append(bytes);
}

Status Publisher::commit() {
  if (!file_) throw Error("Publisher: ", path_, " committed twice");
  sync_or_throw(*file_, temporary_);
  if (Status s = fs_->rename(temporary_, path_); !s.ok()) return s;
  file_.reset();
  const std::string directory = parent_of(path_);
  if (Status s = fs_->sync_directory(directory); !s.ok()) {
    throw FsyncFailed("fsync of the directory of ", path_,
                      " failed, its state on disk is unknown: ", s.message());
  }
  return {};
}

Status publish(Fs& fs, const std::string& path, std::string_view bytes) {
  Result<Publisher> publisher = Publisher::start(fs, path);
  if (!publisher.ok()) return publisher.status();
  if (Status s = publisher->write(bytes); !s.ok()) return s;
  return publisher->commit();
}

}  // namespace ndtrain
