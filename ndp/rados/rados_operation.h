// Operations of librados's C interface on one object, under way while others are.
#pragma once

#include <rados/librados.h>

#include <memory>
#include <string>
#include <string_view>

#include "ndp/rados/object_pool.h"

namespace ndtrain::ndp {

// What an error of librados, a negative errno, means for `what`.
Status rados_failure(const std::string& what, int error);

// It stays where it is until it has ended.
class RadosOperation {
 public:
  RadosOperation() = default;
  ~RadosOperation() { rados_aio_release(completion_); }
  RadosOperation(const RadosOperation&) = delete;
  RadosOperation& operator=(const RadosOperation&) = delete;

  int end();  // 0 or more, or an error

 protected:
  rados_completion_t completion() const { return completion_; }
  int began(int error) { return begun_ = error; }
  void wait();

 private:
  static rados_completion_t new_completion();

  const rados_completion_t completion_ = new_completion();
  int begun_ = -1;  // where it has not, an error
};

class ReadOperation final : public RadosOperation {
 public:
  ReadOperation() : op_(rados_create_read_op()) {}
  ~ReadOperation();

  void assert_version(uint64_t version) { rados_read_op_assert_version(op_, version); }
  void describe();
  void read(int64_t offset, size_t size);
  int begin(rados_ioctx_t io, const std::string& name);
  // Once it has ended.
  ObjectDescription description() const;
  std::string bytes() const { return {buffer_.get(), read_}; }

 private:
  const rados_read_op_t op_;
  uint64_t size_ = 0;
  time_t mtime_ = 0;
  rados_xattrs_iter_t attributes_ = nullptr;
  size_t read_ = 0;
  std::unique_ptr<char[]> buffer_;
};

// All of its writes are done, or none.
class WriteOperation final : public RadosOperation {
 public:
  WriteOperation() : op_(rados_create_write_op()) {}
  ~WriteOperation();

  void assert_version(uint64_t version) { rados_write_op_assert_version(op_, version); }
  void create() { rados_write_op_create(op_, LIBRADOS_CREATE_EXCLUSIVE, nullptr); }
  void write(std::string_view bytes) { rados_write_op_write_full(op_, bytes.data(), bytes.size()); }
  void set(const ObjectAttributes& attributes);
  void remove() { rados_write_op_remove(op_); }
  // `time`: of the object from then on, Unix seconds; null: now.
  int begin(rados_ioctx_t io, const std::string& name, time_t* time = nullptr);

 private:
  const rados_write_op_t op_;
};

}  // namespace ndtrain::ndp
