// Memory for messages that is used again and again: the system gives a process new pages slowly,
// and what was used last is still in the caches.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

namespace ndtrain {

// One thread. Outlives its buffers.
class BufferPool {
 public:
  struct GiveBack {
    BufferPool* pool = nullptr;
    size_t bytes = 0;
    void operator()(std::byte* buffer) const { pool->give_back({Memory(buffer), bytes}); }
  };
  // Of `bytes` or more, which are not initialised; aligned as new is.
  using Buffer = std::unique_ptr<std::byte[], GiveBack>;

  // Keeps so many bytes at most that nobody uses.
  explicit BufferPool(size_t most_kept) : most_kept_(most_kept) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer take(size_t bytes);
  size_t kept() const { return kept_; }  // bytes that nobody uses

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  struct Kept {
    Memory memory;
    size_t bytes = 0;
  };

  void give_back(Kept buffer);

  const size_t most_kept_;
  size_t kept_ = 0;
  std::deque<Kept> free_;  // the last one given back last
};

}  // namespace ndtrain
