#include "framework/core/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ndtrain {
namespace {

TEST(AvailableMemory, IsSomeOfWhatThereIs) {
  EXPECT_GT(available_memory(), int64_t{16} << 20);
  EXPECT_LE(available_memory(), sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

}  // namespace
}  // namespace ndtrain
