#include "ndp/rados/rados_operation.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "ndp/rados/content_mark.h"

namespace ndtrain::ndp {
namespace {

constexpr int kReadFlags = LIBRADOS_OPERATION_LOCALIZE_READS;
// Without it librados waits until a full pool has room again.
constexpr int kWriteFlags = LIBRADOS_OPERATION_FULL_TRY;

}  // namespace

Status rados_failure(const std::string& what, int error) {
  const int e = -error;
  const std::string text = what + ": " + std::strerror(e);
  switch (e) {
    case ENOENT:
      return {Code::kNotFound, text};
    case EEXIST:
      return {Code::kExists, text};
    case ENOSPC:
      return {Code::kNoSpace, text + "; the pool is full: add OSDs, or remove objects"};
    case EDQUOT:
      return {Code::kNoSpace, text + "; the pool's quota is used up: see ceph osd pool set-quota"};
    case EFBIG:
    case EMSGSIZE:
      return {Code::kTooLarge, text + "; OSDs take no object of this size (osd_max_write_size)"};
    case ETIMEDOUT:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ESHUTDOWN:  // the cluster does not talk to this client any more
    case EAGAIN:
      return {Code::kUnavailable, text};
    case EPERM:
    case EACCES:
    case EROFS:
      return {Code::kUnsupported, text + "; its user may not: see ceph auth get"};
    default:
      return {Code::kIo, text};
  }
}

rados_completion_t RadosOperation::new_completion() {
  rados_completion_t completion = nullptr;
  if (rados_aio_create_completion2(nullptr, nullptr, &completion) < 0) throw std::bad_alloc();
  return completion;
}

void RadosOperation::wait() {
  if (begun_ >= 0) rados_aio_wait_for_complete(completion_);
}

int RadosOperation::end() {
  wait();
  return begun_ < 0 ? begun_ : rados_aio_get_return_value(completion_);
}

ReadOperation::~ReadOperation() {
  wait();
  if (attributes_) rados_getxattrs_end(attributes_);
  rados_release_read_op(op_);
}

void ReadOperation::describe() {
  rados_read_op_stat(op_, &size_, &mtime_, nullptr);
  rados_read_op_getxattrs(op_, &attributes_, nullptr);
}

void ReadOperation::read(int64_t offset, size_t size) {
  buffer_ = std::make_unique_for_overwrite<char[]>(size);
  rados_read_op_read(op_, static_cast<uint64_t>(offset), size, buffer_.get(), &read_, nullptr);
}

int ReadOperation::begin(rados_ioctx_t io, const std::string& name) {
  return began(rados_aio_read_op_operate(op_, io, completion(), name.c_str(), kReadFlags));
}

ObjectDescription ReadOperation::description() const {
  ObjectDescription d;
  d.object = {.size = static_cast<int64_t>(size_),
              .mtime_ns = static_cast<int64_t>(mtime_) * kObjectSecond,
              .version = rados_aio_get_version(completion())};
  const char *name = nullptr, *value = nullptr;
  size_t bytes = 0;
  while (attributes_ && rados_getxattrs_next(attributes_, &name, &value, &bytes) == 0 && name) {
    d.attributes.emplace(name, std::string(value, bytes));
  }
  d.object.content = content_version(d.object, d.attributes);
  return d;
}

WriteOperation::~WriteOperation() {
  wait();
  rados_release_write_op(op_);
}

void WriteOperation::set(const ObjectAttributes& attributes) {
  for (const auto& [name, value] : attributes) {
    rados_write_op_setxattr(op_, name.c_str(), value.data(), value.size());
  }
}

int WriteOperation::begin(rados_ioctx_t io, const std::string& name, time_t* time) {
  return began(rados_aio_write_op_operate(op_, io, completion(), name.c_str(), time, kWriteFlags));
}

}  // namespace ndtrain::ndp
