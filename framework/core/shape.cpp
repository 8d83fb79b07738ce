#include "framework/core/shape.h"

#include <algorithm>
#include <sstream>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

std::ostream& write_dims(std::ostream& os, const std::vector<int64_t>& dims) {
  os << '[';
  for (size_t i = 0; i < dims.size(); ++i) os << (i > 0 ? "," : "") << dims[i];
  return os << ']';
}

std::string text_of(const std::vector<int64_t>& dims) {
  std::ostringstream os;
  write_dims(os, dims);
  return os.str();
}

}  // namespace

Shape::Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {
  if (dims_.size() > static_cast<size_t>(limits::kRank)) {
    throw Error("Shape: rank ", dims_.size(), " is beyond the limit of ", limits::kRank);
  }
  // A zero extent does not hide the others: strides and partial counts must not overflow either.
  int64_t product = 1;
  for (int64_t d : dims_) {
    if (d < 0) throw Error("Shape: negative extent in ", text_of(dims_));
    if (d > limits::kElements / product) {
      throw Error("Shape: ", text_of(dims_), " has more than ", limits::kElements, " elements");
    }
    product *= std::max<int64_t>(d, 1);
    count_ *= d;
  }
}

int64_t Shape::operator[](int i) const {
  const int j = i < 0 ? i + rank() : i;
  if (j < 0 || j >= rank()) throw Error("Shape: ", *this, " has no dimension ", i);
  return dims_[static_cast<size_t>(j)];
}

int64_t Shape::count(int begin, int end) const {
  if (begin < 0 || begin > end || end > rank()) {
    throw Error("Shape: ", *this, " has no dimensions [", begin, ",", end, ")");
  }
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= dims_[static_cast<size_t>(i)];
  return n;
}

std::vector<int64_t> Shape::strides() const {
  std::vector<int64_t> strides(dims_.size(), 1);
  for (size_t i = dims_.size(); i-- > 1;) strides[i - 1] = strides[i] * dims_[i];
  return strides;
}

int Shape::axis(int64_t axis, std::string_view who, bool end) const {
  const int64_t last = end ? rank() : rank() - 1;
  if (axis < -int64_t{rank()} || axis > last) {
    throw Error(who, ": axis ", axis, " is out of range for ", *this, " (", -rank(), " to ", last,
                ")");
  }
  return static_cast<int>(axis < 0 ? axis + rank() : axis);
}

Shape Shape::with(int i, int64_t extent) const {
  std::vector<int64_t> dims = dims_;
  dims[static_cast<size_t>(axis(i, "Shape::with"))] = extent;
  return Shape(std::move(dims));
}

std::ostream& operator<<(std::ostream& os, const Shape& s) { return write_dims(os, s.dims()); }

Shape broadcast(const Shape& a, const Shape& b, std::string_view who) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[-i] : 1;
    const int64_t y = i <= b.rank() ? b[-i] : 1;
    if (x != y && x != 1 && y != 1) throw Error(who, ": cannot broadcast ", a, " with ", b);
    dims[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::move(dims));
}

std::ostream& operator<<(std::ostream& os, const TensorType& t) {
  return os << name_of(t.dtype) << t.shape;
}

}  // namespace ndtrain
