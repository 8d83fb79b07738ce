#include "framework/core/descriptor_limit.h"

#include <sys/resource.h>

namespace ndtrain {

void raise_descriptor_limit() {
  rlimit most = {};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return;
  most.rlim_cur = most.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &most);
}

}  // namespace ndtrain
