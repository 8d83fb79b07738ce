#include "framework/core/publish.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>

namespace ndtrain {
namespace {

constexpr std::string_view kMark = ".ndt-tmp-";

// No two processes agree, not even those of containers that count their processes alike.
const std::string& process_token() {
  static const std::string token = [] {
    std::random_device random;
    char text[17];
    std::snprintf(text, sizeof text, "%08x%08x", random(), random());
    return std::string(text);
  }();
  return token;
}

std::string temporary_for(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  // 200: what we add must not push a long name over the file system's limit of 255 bytes. The
  // process id is for children, which have our token.
  const std::string name = "." + name_of_path(path).substr(0, 200) + std::string(kMark) +
                           process_token() + "-" + std::to_string(::getpid()) + "-" +
                           std::to_string(++counter);
  return join(parent_of(path), name);
}

// Skips characters that `is` accepts; false if there are none.
template <typename F>
bool skip(std::string_view& s, F is) {
  const auto n = static_cast<size_t>(std::ranges::find_if_not(s, is) - s.begin());
  s.remove_prefix(n);
  return n > 0;
}

}  // namespace

bool is_temporary(std::string_view name) {
  const size_t mark = name.rfind(kMark);
  if (!name.starts_with('.') || mark == std::string_view::npos) return false;
  std::string_view rest = name.substr(mark + kMark.size());
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  const auto is_hex = [&](char c) { return is_digit(c) || ('a' <= c && c <= 'f'); };
  const auto is_dash = [](char c) { return c == '-'; };
  return skip(rest, is_hex) && skip(rest, is_dash) && skip(rest, is_digit) && skip(rest, is_dash) &&
         skip(rest, is_digit) && rest.empty();
}

void sweep_temporaries(Fs& fs, const std::string& directory) {
  const Result<std::vector<std::string>> names = fs.list(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!is_temporary(name)) continue;
    const std::string path = join(directory, name);
    const Result<std::unique_ptr<File>> file = fs.open(path, Fs::Mode::kRead);
    if (!file.ok() || !(*file)->lock().ok()) continue;
    static_cast<void>(fs.remove(path).ok());
  }
}

Result<Publisher> Publisher::start(Fs& fs, std::string path, Fs::Mode mode) {
  const std::string directory = parent_of(path);
  if (fs.first_visit(directory)) sweep_temporaries(fs, directory);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    std::string temporary = temporary_for(path);
    Result<std::unique_ptr<File>> file = fs.open(temporary, mode);
    if (!file.ok()) return file.status();
    // Whoever swept between these two calls has the lock, or has removed the file.
    const Status locked = (*file)->lock();
    if (locked.code() == Code::kExists || !fs.exists(temporary)) continue;
    return Publisher(fs, std::move(path), std::move(temporary), std::move(*file));
  }
  return Status(Code::kIo, path + ": others remove its temporary file again and again");
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
  file_->sync();
  if (Status s = fs_->rename(temporary_, path_); !s.ok()) return s;
  file_.reset();
  fs_->sync_directory(parent_of(path_));
  return {};
}

Status publish(Fs& fs, const std::string& path, std::string_view bytes, Fs::Mode mode) {
  Result<Publisher> publisher = Publisher::start(fs, path, mode);
  if (!publisher.ok()) return publisher.status();
  if (Status s = publisher->write(bytes); !s.ok()) return s;
  return publisher->commit();
}

}  // namespace ndtrain
