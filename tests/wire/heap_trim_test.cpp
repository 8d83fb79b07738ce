#include "ndp/wire/heap_trim.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace ndtrain::ndp {
namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(HeapTrim, LeavesAHeapInPeaceThatIsInUse) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "a sanitizer's heap says nothing of itself";
  if (mallinfo2().fordblks >= HeapTrim::kFree)
    GTEST_SKIP() << "other tests have left too much free";
  HeapTrim trim;
  EXPECT_FALSE(trim.look(std::chrono::hours(1)));
}

TEST(HeapTrim, GivesBackWhatLiesFreeBetweenWhatIsInUse) {
  if (mallinfo2().uordblks == 0) GTEST_SKIP() << "a sanitizer's heap says nothing of itself";
  constexpr size_t kPiece = 1024, kPieces = 64 << 10, kKept = 64;
  std::vector<std::unique_ptr<std::string>> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<std::string>(kPiece, 'x'));
  }
  for (size_t i = 0; i < kPieces; ++i) {
    if (i % kKept != 0) pieces[i] = nullptr;
  }
  const int64_t before = resident_bytes();
  HeapTrim trim;
  EXPECT_TRUE(trim.look(std::chrono::hours(1)));
  EXPECT_LT(resident_bytes(), before - (int64_t{32} << 20));
  for (size_t i = 0; i < kPieces; i += kKept) EXPECT_EQ(*pieces[i], std::string(kPiece, 'x'));
  EXPECT_FALSE(trim.look(std::chrono::hours(1) + HeapTrim::kEvery / 2)) << "now and then";
}

}  // namespace
}  // namespace ndtrain::ndp
