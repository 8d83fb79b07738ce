#include "framework/comm/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace ndtrain {

BufferPool::Buffer BufferPool::take(size_t bytes) {
  const auto fits = [&](const Kept& k) { return k.bytes >= bytes; };
  const auto it = std::find_if(free_.rbegin(), free_.rend(), fits);
  if (it == free_.rend()) {
    return {std::make_unique_for_overwrite<std::byte[]>(bytes).release(), {this, bytes}};
  }
  const size_t has = it->bytes;
  Buffer buffer(it->memory.release(), {this, has});
  free_.erase(std::next(it).base());
  kept_ -= has;
  return buffer;
}

void BufferPool::give_back(Kept buffer) {
  kept_ += buffer.bytes;
  free_.push_back(std::move(buffer));
  for (; kept_ > most_kept_; free_.pop_front()) kept_ -= free_.front().bytes;
}

}  // namespace ndtrain
