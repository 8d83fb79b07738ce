#include "backends/cpu/gemm/packed_constant.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace ndtrain::cpu {
namespace {

using Packed = std::shared_ptr<const std::byte[]>;
using Key = std::pair<uint64_t, std::string>;

struct Cache {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const std::byte[]>> entries;
};

// Never destroyed: kernels may be released after static destructors have run.
Cache& cache() {
  static Cache& c = *new Cache;
  return c;
}

void drop_expired(Cache& c) {
  std::erase_if(c.entries, [](const auto& e) { return e.second.expired(); });
}

}  // namespace

void FreeDeleter::operator()(void* p) const { std::free(p); }

std::unique_ptr<std::byte[], FreeDeleter> aligned_bytes(size_t bytes) {
  constexpr size_t kLine = 64;
  if (bytes > SIZE_MAX - kLine) throw std::bad_alloc();
  void* p = std::aligned_alloc(kLine, (bytes / kLine + 1) * kLine);
  if (!p) throw std::bad_alloc();
  return std::unique_ptr<std::byte[], FreeDeleter>(static_cast<std::byte*>(p));
}

Packed packed_constant(uint64_t id, const std::string& layout, size_t bytes,
                       const std::function<void(void*)>& pack) {
  const auto make = [&] {
    auto memory = aligned_bytes(bytes);
    pack(memory.get());
    return Packed(std::move(memory));
  };
  if (id == 0) return make();
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  const Key key(id, layout);
  if (const auto it = c.entries.find(key); it != c.entries.end()) {
    if (Packed packed = it->second.lock()) return packed;
  }
  Packed packed = make();
  drop_expired(c);
  c.entries[key] = packed;
  return packed;
}

}  // namespace ndtrain::cpu
