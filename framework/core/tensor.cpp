#include "framework/core/tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "framework/core/memory.h"

namespace ndtrain {
namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte[]> allocate(const TensorType& type) {
  const size_t bytes = type.bytes();
  // The system promises more than there is, and ends who takes it.
  if (bytes > static_cast<uint64_t>(usable_memory())) {
    throw Error("Tensor: no memory for the ", bytes, " bytes of ", type, ": this process may use ",
                usable_memory());
  }
  const auto release = [](std::byte* p) { ::operator delete[](p, kAlignment); };
  try {
    // At least one byte, so that an empty tensor is still a defined one.
    auto* p = static_cast<std::byte*>(::operator new[](std::max<size_t>(bytes, 1), kAlignment));
    std::shared_ptr<std::byte[]> data(p, release);
    std::memset(p, 0, bytes);
    return data;
  } catch (const std::bad_alloc&) {
    throw Error("Tensor: no memory for the ", bytes, " bytes of ", type);
  }
}

}  // namespace

Tensor::Tensor(TensorType type) : type_(std::move(type)), data_(allocate(type_)) {}

Tensor Tensor::i64(const std::vector<int64_t>& values) {
  return of(DType::kI64, Shape({static_cast<int64_t>(values.size())}), values);
}

Tensor Tensor::from_doubles(TensorType type, std::span<const double> values) {
  if (static_cast<size_t>(type.shape.count()) != values.size()) {
    throw Error("Tensor: ", values.size(), " values for ", type);
  }
  Tensor t(std::move(type));
  store(values.data(), values.size(), t.type_.dtype, t.data_.get());
  return t;
}

std::vector<double> Tensor::to_doubles() const {
  if (!defined()) throw Error("Tensor: an absent tensor has no values");
  std::vector<double> values(static_cast<size_t>(shape().count()));
  load(data_.get(), values.size(), type_.dtype, values.data());
  return values;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (!defined() || is_float(type_.dtype)) throw Error("Tensor: ", type_, " holds no integers");
  const auto n = static_cast<size_t>(shape().count());
  std::vector<int64_t> values(n);
  if (type_.dtype == DType::kI64) {
    std::copy_n(as<int64_t>().begin(), n, values.begin());
  } else if (type_.dtype == DType::kU64) {
    const auto from = as<uint64_t>();
    for (size_t i = 0; i < n; ++i) {
      if (from[i] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error("Tensor: ", from[i], " at ", i, " of ", type_, " is beyond i64");
      }
      values[i] = static_cast<int64_t>(from[i]);
    }
  } else {
    const std::vector<double> doubles = to_doubles();  // exact for 32 bits and fewer
    std::transform(doubles.begin(), doubles.end(), values.begin(),
                   [](double d) { return static_cast<int64_t>(d); });
  }
  return values;
}

Tensor Tensor::reshaped(Shape shape) const {
  if (!defined()) throw Error("Tensor: an absent tensor cannot become ", shape);
  if (shape.count() != type_.shape.count())
    throw Error("Tensor: ", type_, " cannot become ", shape);
  Tensor t = *this;
  t.type_.shape = std::move(shape);
  return t;
}

Tensor Tensor::rows(int64_t begin, int64_t n) const {
  if (shape().rank() == 0 || begin < 0 || n < 0 || begin > shape()[0] - n) {
    throw Error("Tensor: ", type_, " has no rows ", begin, " to ", begin + n);
  }
  TensorType part{type_.dtype, shape().with(0, n)};
  const size_t row = shape()[0] == 0 ? 0 : bytes() / static_cast<size_t>(shape()[0]);
  std::byte* first = data_.get() + static_cast<size_t>(begin) * row;
  return {std::move(part), std::shared_ptr<std::byte[]>(data_, first)};
}

bool Tensor::same_bytes(const Tensor& o) const {
  if (defined() != o.defined()) return false;
  if (!defined()) return true;
  return type_ == o.type_ && std::memcmp(data_.get(), o.data_.get(), bytes()) == 0;
}

void Tensor::check(size_t element) const {
  if (!defined()) throw Error("Tensor: an absent tensor has no elements");
  if (size_of(type_.dtype) != element) {
    throw Error("Tensor: ", type_, " read as elements of ", element, " bytes");
  }
}

void Tensor::fill(const void* from, size_t bytes) {
  if (bytes != type_.bytes()) {
    throw Error("Tensor: ", bytes, " bytes for ", type_, ", which takes ", type_.bytes());
  }
  if (bytes > 0) std::memcpy(data_.get(), from, bytes);
}

}  // namespace ndtrain
