#include "framework/onnx/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "framework/core/text.h"

namespace ndtrain {
namespace {

int open_beneath(int directory, const std::string& location) {
  if (location.empty() || location.size() > limits::kPathBytes ||
      location.find('\0') != std::string::npos) {
    throw Error("external data: '", location.substr(0, 80), "' is not a file name");
  }
  open_how how{};
  // O_NONBLOCK: a named pipe must not hold us up before it is refused.
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto fd = syscall(SYS_openat2, directory, location.c_str(), &how, sizeof how);
  if (fd >= 0) return static_cast<int>(fd);
  if (errno == EXDEV || errno == ELOOP) {
    throw Error("external data: '", location,
                "' leads outside the model's directory; keep weights beside the model");
  }
  throw Error("external data: cannot open '", location, "': ", std::strerror(errno));
}

int64_t regular_size(int fd, const std::string& location) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    throw Error("external data: cannot read '", location, "': ", std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) throw Error("external data: '", location, "' is not a file");
  return info.st_size;
}

void check_range(const std::string& location, int64_t size, int64_t offset, int64_t length) {
  if (offset < 0 || offset > size || length > size - offset) {
    throw Error("external data: bytes ", offset, " to ", offset, " + ", length, " of '", location,
                "' are wanted, which has ", size);
  }
}

}  // namespace

bool is_named_after(std::string_view location, std::string_view model) {
  if (!location.starts_with(model)) return false;
  location.remove_prefix(model.size());
  return location.starts_with('.') && location.ends_with(".data") &&
         location.find('/') == std::string_view::npos;
}

ExternalData::ExternalData(const std::string& directory, std::string of)
    : directory_(directory.empty() ? "." : directory), of_(std::move(of)) {}

ExternalData::~ExternalData() {
  if (directory_fd_ >= 0) ::close(directory_fd_);
}

int ExternalData::open(const std::string& location) const {
  if (!of_.empty() && !is_named_after(location, of_)) {
    throw Error("is stored outside the model, in '", printable(location, 80),
                "': --external-data allows that, where the verb has it, and ndtrain model import "
                "writes one file");
  }
  if (directory_fd_ < 0) {
    directory_fd_ = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd_ < 0) {
      throw Error("external data: cannot open directory '", directory_,
                  "': ", std::strerror(errno));
    }
  }
  return open_beneath(directory_fd_, location);
}

int64_t ExternalData::check(const std::string& location, int64_t offset, int64_t length) const {
  const Descriptor file(open(location));
  const int64_t size = regular_size(file.get(), location);
  check_range(location, size, offset, std::max<int64_t>(length, 0));
  return length < 0 ? size - offset : length;
}

void ExternalData::read(const std::string& location, int64_t offset,
                        std::span<std::byte> to) const {
  const Descriptor file(open(location));
  check_range(location, regular_size(file.get(), location), offset,
              static_cast<int64_t>(to.size()));
  while (!to.empty()) {
    const ssize_t n = ::pread(file.get(), to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      throw Error("external data: reading '", location, "' at ", offset, ": ",
                  n < 0 ? std::strerror(errno) : "the file became shorter");
    }
    offset += n;
    to = to.subspan(static_cast<size_t>(n));
  }
}

}  // namespace ndtrain
