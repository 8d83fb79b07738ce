#include "tests/runtime/laid_out.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

namespace ndtrain {
namespace {

size_t element_size(ndt_dtype t) {
  static constexpr size_t kBytes[] = {0, 4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  return kBytes[t];
}

bool blocked(const ndt_tensor_type& t) { return t.channel_block > 1; }

// Channels with the padding lanes.
int64_t lanes(const ndt_tensor_type& t) {
  return (t.dims[1] + t.channel_block - 1) / t.channel_block * t.channel_block;
}

// f(place, plain index or -1 for a padding lane), in elements.
void for_each_place(const ndt_tensor_type& t, const std::function<void(int64_t, int64_t)>& f) {
  const std::function<void(int, int64_t, int64_t)> walk = [&](int d, int64_t place, int64_t plain) {
    if (d == t.rank) return f(place, plain);
    const bool channels = d == 1 && blocked(t);
    for (int64_t i = 0; i < (channels ? lanes(t) : t.dims[d]); ++i) {
      const int64_t step =
          channels ? i / t.channel_block * t.strides[1] + i % t.channel_block : i * t.strides[d];
      walk(d + 1, place + step, plain < 0 || i >= t.dims[d] ? -1 : plain * t.dims[d] + i);
    }
  };
  walk(0, 0, 0);
}

}  // namespace

Bytes::Bytes(size_t size, int fill) : size_(size) {
  void* memory = nullptr;  // aligned_alloc would want whole multiples of the alignment
  if (posix_memalign(&memory, 64, std::max<size_t>(size, 1)) != 0) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(memory));
  if (size) std::memset(data_.get(), fill, size);
}

Bytes::Bytes(size_t size, const void* from) : Bytes(size) {
  if (size) std::memcpy(data_.get(), from, size);
}

bool Bytes::operator==(const Bytes& o) const {
  return size_ == o.size_ && (size_ == 0 || std::memcmp(data(), o.data(), size_) == 0);
}

bool is_plain(const ndt_tensor_type& t) {
  ndt_tensor_type plain = t;
  make_plain(plain);
  return !blocked(t) && std::equal(t.strides, t.strides + t.rank, plain.strides);
}

void make_plain(ndt_tensor_type& t) {
  t.channel_block = 0;
  int64_t step = 1;
  for (int d = t.rank; d-- > 0; step *= t.dims[d]) t.strides[d] = step;
}

void make_blocked(ndt_tensor_type& t, int block) {
  t.channel_block = block;
  t.strides[3] = block;
  t.strides[2] = t.dims[3] * t.strides[3];
  t.strides[1] = t.dims[2] * t.strides[2];
  t.strides[0] = lanes(t) / block * t.strides[1];
}

void make_last(ndt_tensor_type& t) {
  t.channel_block = 0;
  t.strides[1] = 1;
  t.strides[3] = t.dims[1];
  t.strides[2] = t.dims[3] * t.strides[3];
  t.strides[0] = t.dims[2] * t.strides[2];
}

size_t laid_size(const ndt_tensor_type& t) {
  if (t.dtype == NDT_ABSENT) return 0;
  int64_t last = 0;
  for (int d = 0; d < t.rank; ++d) {
    if (t.dims[d] == 0) return 0;
    if (d == 1 && blocked(t)) {
      last += (lanes(t) / t.channel_block - 1) * t.strides[1] + t.channel_block - 1;
    } else {
      last += (t.dims[d] - 1) * t.strides[d];
    }
  }
  return static_cast<size_t>(last + 1) * element_size(t.dtype);
}

Bytes assign_layouts(const std::byte* values, const ndt_tensor_type& t) {
  if (is_plain(t)) return {laid_size(t), static_cast<const void*>(values)};
  Bytes laid(laid_size(t), 0xFF);
  const size_t size = element_size(t.dtype);
  for_each_place(t, [&](int64_t place, int64_t plain) {
    std::byte* to = laid.data() + static_cast<size_t>(place) * size;
    if (plain < 0) {
      std::memset(to, 0, size);
    } else {
      std::memcpy(to, values + static_cast<size_t>(plain) * size, size);
    }
  });
  return laid;
}

Bytes read_back(const std::byte* laid, const ndt_tensor_type& t) {
  if (is_plain(t)) return {laid_size(t), static_cast<const void*>(laid)};
  ndt_tensor_type plain_type = t;
  make_plain(plain_type);
  Bytes values(laid_size(plain_type));
  const size_t size = element_size(t.dtype);
  for_each_place(t, [&](int64_t place, int64_t plain) {
    if (plain < 0) return;
    std::memcpy(values.data() + static_cast<size_t>(plain) * size,
                laid + static_cast<size_t>(place) * size, size);
  });
  return values;
}

std::string check_between(const std::byte* laid, const ndt_tensor_type& t) {
  if (is_plain(t)) return {};
  const size_t size = element_size(t.dtype);
  std::vector<char> used(laid_size(t), 0);
  std::string problem;
  for_each_place(t, [&](int64_t place, int64_t plain) {
    for (size_t b = 0; b < size; ++b) {
      const size_t at = static_cast<size_t>(place) * size + b;
      used[at] = 1;
      if (plain < 0 && laid[at] != std::byte{0}) {
        problem = "the padding lane at element " + std::to_string(place) + " is not zero";
      }
    }
  });
  for (size_t at = 0; at < used.size(); ++at) {
    if (!used[at] && laid[at] != std::byte{0xFF}) {
      problem = "the gap at element " + std::to_string(at / size) + " was written to";
    }
  }
  return problem;
}

}  // namespace ndtrain
