// operator new of this process, of which one call fails. What links it has it in place of the
// library's.
#pragma once

#include <cstdint>

namespace ndtrain::support {

// While it lives, the n-th allocation of this thread (1: the next one) throws std::bad_alloc; 0:
// none does, and they are counted. One at a time.
class FailingNew {
 public:
  explicit FailingNew(int64_t n);
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  int64_t allocations() const;  // of this thread, since it lives
  bool failed() const;          // the n-th one came
};

int64_t live_allocations();  // of all threads: not freed yet

}  // namespace ndtrain::support
