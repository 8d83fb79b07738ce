// Large columns lie in files without a name, beyond what is left on the heap.
#include "ndp/store/mapped_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory_resource>
#include <vector>

#include "framework/core/log.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kBlock = 1 << 20;

class MappedMemoryTest : public ::testing::Test {
 protected:
  MappedMemoryTest() { log::set_level(log::Level::kOff); }
  ~MappedMemoryTest() override { log::set_level(log::Level::kInfo); }

  const support::TemporaryDirectory disk_;
};

TEST_F(MappedMemoryTest, AColumnGrowsInFilesWithoutNamesAndGivesThemBack) {
  MappedMemory memory(disk_.path(), 0);
  {
    std::pmr::vector<uint64_t> column(&memory);
    for (uint64_t i = 0; i < kBlock; ++i) column.push_back(i * i);
    EXPECT_GE(memory.mapped(), static_cast<int64_t>(kBlock * sizeof(uint64_t)));
    EXPECT_TRUE(std::filesystem::is_empty(disk_.path()));
    for (uint64_t i = 0; i < kBlock; ++i) ASSERT_EQ(column[i], i * i);
    const std::pmr::vector<uint64_t> moved = std::move(column);
    EXPECT_EQ(moved.back(), (kBlock - 1) * (kBlock - 1));
  }
  EXPECT_EQ(memory.mapped(), 0);
}

TEST_F(MappedMemoryTest, WhatIsSmallAndTheFirstOfWhatIsLargeIsOnTheHeap) {
  MappedMemory memory(disk_.path(), 2 * kBlock);
  void* const small = memory.allocate(MappedMemory::kLeast - 1);
  void* const first = memory.allocate(kBlock);
  void* const second = memory.allocate(kBlock);
  EXPECT_EQ(memory.mapped(), 0);
  void* const third = memory.allocate(kBlock);
  EXPECT_EQ(memory.mapped(), static_cast<int64_t>(kBlock));
  memory.deallocate(first, kBlock);  // there is room for one again
  void* const fourth = memory.allocate(kBlock);
  EXPECT_EQ(memory.mapped(), static_cast<int64_t>(kBlock));
  for (void* block : {second, third, fourth}) memory.deallocate(block, kBlock);
  memory.deallocate(small, MappedMemory::kLeast - 1);
  EXPECT_EQ(memory.mapped(), 0);
}

TEST_F(MappedMemoryTest, WhereNoFileCanBeAllIsOnTheHeap) {
  MappedMemory memory(disk_.at("absent"), 0);
  std::pmr::vector<uint64_t> column(kBlock, 7, &memory);
  EXPECT_EQ(memory.mapped(), 0);
  EXPECT_EQ(column.back(), 7U);
}

TEST_F(MappedMemoryTest, TheLastOfAVolumeIsLeftFree) {
  MappedMemory memory(disk_.path(), 0, 1.0);  // all of it is the last
  void* const block = memory.allocate(kBlock);
  EXPECT_EQ(memory.mapped(), 0);
  memory.deallocate(block, kBlock);
}

}  // namespace
}  // namespace ndtrain::ndp
