#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/error.h"

namespace ndtrain {

// Extents, outermost first. Never negative; the product is checked against limits.h on
// construction.
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(std::vector<int64_t>(dims)) {}
  explicit Shape(std::vector<int64_t> dims);  // throws Error: negative extent, rank, element count

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int i) const;  // negative i counts from the end; throws Error out of range
  int64_t count() const { return count_; }
  int64_t count(int begin, int end) const;  // product of dims [begin, end)
  const std::vector<int64_t>& dims() const { return dims_; }
  std::vector<int64_t> strides() const;  // in elements, row-major

  // `axis` in [-rank, rank) as [0, rank); throws Error naming `who`. `end` allows rank itself.
  int axis(int64_t axis, std::string_view who, bool end = false) const;
  Shape with(int i, int64_t extent) const;  // a copy with dim i replaced

  bool operator==(const Shape& o) const { return dims_ == o.dims_; }

 private:
  std::vector<int64_t> dims_;
  int64_t count_ = 1;
};

std::ostream& operator<<(std::ostream& os, const Shape& s);  // [2,3]

// NumPy's multidirectional broadcast; throws Error naming `who`.
Shape broadcast(const Shape& a, const Shape& b, std::string_view who);

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(shape.count()) * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
};

std::ostream& operator<<(std::ostream& os, const TensorType& t);  // f32[2,3]

}  // namespace ndtrain
