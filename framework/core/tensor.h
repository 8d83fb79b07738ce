#pragma once

#include <memory>
#include <span>
#include <vector>

#include "framework/core/shape.h"

namespace ndtrain {

// Typed host memory: row-major, contiguous, 64-byte aligned. Copies share the bytes. Fill a tensor
// before sharing it; from then on it is read-only and safe to read from any thread.
class Tensor {
 public:
  Tensor() = default;                // absent: defined() is false
  explicit Tensor(TensorType type);  // zeros
  // In memory that somebody else took: `data` has the bytes of the type and lies aligned.
  Tensor(TensorType type, std::shared_ptr<std::byte[]> data)
      : type_(std::move(type)), data_(std::move(data)) {}

  template <typename T>
  static Tensor of(DType dtype, Shape shape, const std::vector<T>& values) {
    Tensor t({dtype, std::move(shape)});
    t.fill(values.data(), values.size() * sizeof(T));
    return t;
  }
  static Tensor i64(const std::vector<int64_t>& values);                        // rank 1
  static Tensor from_doubles(TensorType type, std::span<const double> values);  // see rounded()

  bool defined() const { return data_ != nullptr; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  size_t bytes() const { return defined() ? type_.bytes() : 0; }
  const void* data() const { return data_.get(); }
  void* mutable_data() { return data_.get(); }

  // Throws Error when sizeof(T) does not fit the dtype.
  template <typename T>
  std::span<const T> as() const {
    check(sizeof(T));
    return {reinterpret_cast<const T*>(data_.get()), static_cast<size_t>(shape().count())};
  }
  template <typename T>
  std::span<T> mutable_as() {
    check(sizeof(T));
    return {reinterpret_cast<T*>(data_.get()), static_cast<size_t>(shape().count())};
  }

  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_ints() const;  // any integer or bool dtype; throws Error otherwise

  Tensor reshaped(Shape shape) const;  // shares the bytes; throws Error when the counts differ
  // Rows [begin, begin + n) along the first axis. Shares the bytes; they lie where they lie,
  // aligned or not. Throws Error when there are no such rows.
  Tensor rows(int64_t begin, int64_t n) const;
  bool same_bytes(const Tensor& o) const;

 private:
  void check(size_t element) const;
  void fill(const void* from, size_t bytes);  // throws Error when the sizes differ

  TensorType type_{DType::kNone, {}};
  std::shared_ptr<std::byte[]> data_;
};

}  // namespace ndtrain
