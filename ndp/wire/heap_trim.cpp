#include "ndp/wire/heap_trim.h"

#include <malloc.h>

namespace ndtrain::ndp {

bool HeapTrim::look(Time now) {
  if (now < next_) return false;
  next_ = now + kEvery;
  if (mallinfo2().fordblks < kFree) return false;
  malloc_trim(0);
  return true;
}

}  // namespace ndtrain::ndp
