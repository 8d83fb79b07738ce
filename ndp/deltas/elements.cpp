#include "ndp/deltas/elements.h"

#include <cstring>

#include "framework/core/error.h"

namespace ndtrain::ndp::delta_format {
namespace {

constexpr size_t kSparseShare = 2;  // one element in so many may differ

template <typename U>
U element_at(std::string_view bytes, size_t i) {
  U value = 0;
  if ((i + 1) * sizeof(U) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + i * sizeof(U), sizeof(U));
  }
  return value;
}

// -1, 1, -2 become 1, 2, 3: the sign moves to the lowest bit.
template <typename U>
U zigzag(U difference) {
  const U sign = static_cast<U>(difference >> (8 * sizeof(U) - 1));
  return static_cast<U>(static_cast<U>(difference << 1) ^ static_cast<U>(U{0} - sign));
}
template <typename U>
U unzigzag(U n) {
  return static_cast<U>(static_cast<U>(n >> 1) ^ static_cast<U>(U{0} - static_cast<U>(n & 1)));
}

template <typename U>
std::string planes_of(std::string_view tensor, std::string_view base) {
  const size_t n = tensor.size() / sizeof(U);
  std::string planes(tensor.size(), '\0');
  for (size_t i = 0; i < n; ++i) {
    const U d = zigzag(static_cast<U>(element_at<U>(tensor, i) - element_at<U>(base, i)));
    for (size_t p = 0; p < sizeof(U); ++p) planes[p * n + i] = static_cast<char>(d >> (8 * p));
  }
  return planes;
}

template <typename U>
void add_planes(std::string_view planes, std::string_view base, char* to) {
  const size_t n = planes.size() / sizeof(U);
  for (size_t i = 0; i < n; ++i) {
    U d = 0;
    for (size_t p = 0; p < sizeof(U); ++p) {
      d = static_cast<U>(d | U{static_cast<uint8_t>(planes[p * n + i])} << (8 * p));
    }
    const U value = static_cast<U>(element_at<U>(base, i) + unzigzag(d));
    std::memcpy(to + i * sizeof(U), &value, sizeof(U));
  }
}

// Calls `f` with a number of the element's type.
template <typename F>
auto of_type(uint32_t element, F f) {
  switch (element) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace

std::string pack_planes(std::string_view tensor, std::string_view base, uint32_t element) {
  const std::string planes =
      of_type(element, [&](auto u) { return planes_of<decltype(u)>(tensor, base); });
  const size_t n = tensor.size() / element;
  std::string out;
  for (uint32_t p = 0; p < element; ++p) out += pack(std::string_view(planes).substr(p * n, n));
  return out;
}

void unpack_planes(ByteReader& from, std::string_view base, uint32_t element, char* to,
                   size_t bytes) {
  std::string planes(bytes, '\0');
  const size_t n = bytes / element;
  for (uint32_t p = 0; p < element; ++p) unpack(from, {}, planes.data() + p * n, n);
  of_type(element, [&](auto u) { add_planes<decltype(u)>(planes, base, to); });
}

std::optional<std::string> pack_sparse(std::string_view tensor, std::string_view base,
                                       uint32_t element) {
  const size_t n = tensor.size() / element;
  std::string gaps, values;
  size_t changed = 0, next = 0;
  for (size_t i = 0; i < n; ++i) {
    const std::string_view now = tensor.substr(i * element, element);
    if (now == base.substr(i * element, element)) continue;
    if (++changed > n / kSparseShare) return std::nullopt;
    put_varint(gaps, i - next);
    values += now;
    next = i + 1;
  }
  std::string out;
  put_varint(out, changed);
  put_varint(out, gaps.size());
  return out + pack(gaps) + pack(values);
}

void unpack_sparse(ByteReader& from, std::string_view base, uint32_t element, char* to,
                   size_t bytes) {
  const size_t n = bytes / element;
  const uint64_t changed = from.varint(), gap_bytes = from.varint();
  if (changed > n || gap_bytes > 10 * changed) throw Error("more changes than elements");
  std::string gaps(gap_bytes, '\0'), values(changed * element, '\0');
  unpack(from, {}, gaps.data(), gaps.size());
  unpack(from, {}, values.data(), values.size());
  std::memcpy(to, base.data(), bytes);
  ByteReader in(gaps);
  size_t next = 0;
  for (size_t c = 0; c < changed; ++c) {
    const uint64_t gap = in.varint();
    if (next >= n || gap >= n - next) throw Error("a change beyond its tensor");
    std::memcpy(to + (next + gap) * element, values.data() + c * element, element);
    next += gap + 1;
  }
}

}  // namespace ndtrain::ndp::delta_format
