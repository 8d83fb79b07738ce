// Memory for columns of very many rows. What is small, and the first of what is large, is on the
// heap; the rest lies in files without a name, from which the kernel reads what is used and into
// which it writes what is not, so that a process may have more of it than the machine has memory.
// The room of a block is taken when it is allocated, since a page for which there is none would end
// the process (SIGBUS) when it is written. A disk that fails ends it, too.
//
// Thread-safe, but not to be destroyed before all it gave is back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <set>
#include <string>

namespace ndtrain::ndp {

class MappedMemory final : public std::pmr::memory_resource {
 public:
  static constexpr size_t kLeast = size_t{64} << 10;      // bytes of a large block
  static constexpr int64_t kOnHeap = int64_t{256} << 20;  // of large blocks, at most
  static constexpr double kLeftFree = 0.05;               // of the volume, as DiskBudget does

  // `directory`: of a real file system that has files without a name (O_TMPFILE). Where one cannot
  // be made, or there is no room, all is on the heap, and the log says so once.
  explicit MappedMemory(std::string directory, int64_t on_heap = kOnHeap,
                        double left_free = kLeftFree)
      : directory_(std::move(directory)), on_heap_(on_heap), left_free_(left_free) {}
  ~MappedMemory() override = default;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  int64_t mapped() const;  // bytes that lie in files now

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* block, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  void* map(size_t bytes);  // null: it cannot be

  const std::string directory_;
  const int64_t on_heap_;
  const double left_free_;
  mutable std::mutex mutex_;
  std::set<void*> blocks_;  // that are mapped
  int64_t heap_ = 0, mapped_ = 0;
  bool told_ = false;
};

}  // namespace ndtrain::ndp
