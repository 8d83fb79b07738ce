#include "tests/support/failing_new.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace ndtrain::support {
namespace {

constinit thread_local int64_t fail_at = 0, allocated = 0;
constinit thread_local bool counting = false;
constinit std::atomic<int64_t> live = 0;

void* counted(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void may_fail() {
  if (counting && ++allocated == fail_at) throw std::bad_alloc();
}

void* take(size_t bytes) {
  may_fail();
  return counted(std::malloc(std::max<size_t>(bytes, 1)));
}

void* take_aligned(size_t bytes, std::align_val_t to) {
  may_fail();
  const auto line = static_cast<size_t>(to);
  return counted(std::aligned_alloc(line, (std::max<size_t>(bytes, 1) + line - 1) / line * line));
}

void give(void* p) {
  if (p != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(p);
}

}  // namespace

FailingNew::FailingNew(int64_t n) {
  fail_at = n;
  allocated = 0;
  counting = true;
}
FailingNew::~FailingNew() { counting = false; }
int64_t FailingNew::allocations() const { return allocated; }
bool FailingNew::failed() const { return fail_at > 0 && allocated >= fail_at; }

int64_t live_allocations() { return live; }

}  // namespace ndtrain::support

// The array forms and those that do not throw call these.
void* operator new(size_t bytes) { return ndtrain::support::take(bytes); }
void* operator new(size_t bytes, std::align_val_t to) {
  return ndtrain::support::take_aligned(bytes, to);
}
void operator delete(void* p) noexcept { ndtrain::support::give(p); }
void operator delete(void* p, size_t) noexcept { ndtrain::support::give(p); }
void operator delete(void* p, std::align_val_t) noexcept { ndtrain::support::give(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { ndtrain::support::give(p); }
