// Tensors in the layouts of the backend ABI: values put where a type's strides and channel block
// say, and read back.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "framework/runtime/backend_abi.h"

namespace ndtrain {

// Exactly as many bytes as asked for, 64-byte aligned, so that a sanitizer sees any overrun.
class Bytes {
 public:
  explicit Bytes(size_t size, int fill = 0);
  Bytes(size_t size, const void* from);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool operator==(const Bytes& o) const;

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

bool is_plain(const ndt_tensor_type& t);  // row-major, without gaps
void make_plain(ndt_tensor_type& t);
void make_blocked(ndt_tensor_type& t, int block);
void make_last(ndt_tensor_type& t);  // [N, H, W, C]

// Bytes from the first to the last element, padding lanes included.
size_t laid_size(const ndt_tensor_type& t);
// `values` is row-major; padding lanes are zero, gaps are 0xFF.
Bytes assign_layouts(const std::byte* values, const ndt_tensor_type& t);
Bytes read_back(const std::byte* laid, const ndt_tensor_type& t);  // row-major
// Empty when padding lanes are zero and gaps are still 0xFF, else what is not.
std::string check_between(const std::byte* laid, const ndt_tensor_type& t);

}  // namespace ndtrain
