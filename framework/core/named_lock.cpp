#include "framework/core/named_lock.h"

#include <unistd.h>

namespace ndtrain {
namespace {

constexpr int64_t kMostText = 1024;

std::string named(const std::string& who) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string text = "process " + std::to_string(::getpid()) + " on " + host;
  if (!who.empty()) text += " (" + who + ")";
  return text;
}

}  // namespace

Result<std::unique_ptr<FileLock>> lock_as(Fs& fs, const std::string& path, const std::string& who) {
  Result<std::unique_ptr<FileLock>> lock = fs.lock(path);
  if (lock.status().code() == Code::kExists) {
    const Result<std::string> text = fs.read(path, kMostText);
    const bool told = text.ok() && !text->empty();
    return Status(Code::kExists, path + " is held by " + (told ? *text : "another process"));
  }
  if (!lock.ok()) return lock;
  // The lock counts without its text.
  if (Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kCreate); file.ok()) {
    const std::string text = named(who);
    static_cast<void>((*file)->append(std::as_bytes(std::span(text))).ok());
  }
  return lock;
}

}  // namespace ndtrain
