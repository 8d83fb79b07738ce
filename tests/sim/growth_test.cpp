// What grows with the number of stores grows no faster than it.
#include "tests/sim/growth.h"

#include <gtest/gtest.h>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::sim {
namespace {

class GrowthTest : public ::testing::Test {
 protected:
  GrowthTest() { log::set_level(log::Level::kOff); }
  ~GrowthTest() override { log::set_level(log::Level::kInfo); }

  static Growth of(size_t stores) {
    MemoryFs fs;
    const Growth g = grow(fs, "state", {.stores = stores, .photos = 40, .idle_s = 6});
    EXPECT_EQ(g.failure, "");
    EXPECT_EQ(g.delivered, stores * 40);
    return g;
  }
};

uint64_t written(const Growth& g) {
  return g.connect.bytes_written + g.idle.bytes_written + g.leave.bytes_written;
}

TEST_F(GrowthTest, FourTimesTheStoresCostFourTimesTheMessagesAndBytes) {
  const Growth few = of(50), many = of(200);
  EXPECT_EQ(many.connect.messages, 4 * few.connect.messages);
  EXPECT_EQ(many.idle.messages, 4 * few.idle.messages);
  EXPECT_LE(many.rows.messages, 4 * few.rows.messages);
  EXPECT_LE(written(many), 5 * written(few));
  EXPECT_LE(many.connect.files_written, 2 * few.connect.files_written);
}

// At rest a Tuner keeps a filter of the photos of each store, and what they are on its disk.
TEST_F(GrowthTest, TenTimesThePhotosAreFewMoreBytesOfMemory) {
  const auto at_rest = [](size_t photos) {
    const support::TemporaryDirectory disk;
    const Growth g = grow(real_fs(), disk.at("state"),
                          {.stores = 20, .photos = photos, .idle_s = 6, .inventories_alone = true});
    EXPECT_EQ(g.failure, "");
    EXPECT_GE(g.inventory.bytes_written, 20 * photos * sizeof(Digest));
    return g.after.heap;
  };
  const int64_t few = at_rest(2000), many = at_rest(20'000);
  EXPECT_LT(many - few, int64_t{20} * 18'000 * 4);
}

// In a job what there is of each photo lies in files, beyond what is left on the heap.
TEST_F(GrowthTest, TenTimesThePhotosOfAJobAreFewMoreBytesOfHeap) {
  const auto in_job = [](size_t photos) {
    const support::TemporaryDirectory disk;
    Growth g = grow(real_fs(), disk.at("state"),
                    {.stores = 4, .photos = photos, .idle_s = 6, .on_heap = 0});
    EXPECT_EQ(g.failure, "");
    EXPECT_EQ(g.delivered, 4 * photos);
    return g;
  };
  const Growth few = in_job(20'000), many = in_job(200'000);
  EXPECT_GE(many.inventory.peak_mapped, int64_t{4} * 200'000 * 100);
  EXPECT_LT(many.rows.peak_heap - few.rows.peak_heap, int64_t{4} * 180'000 * 8);
}

}  // namespace
}  // namespace ndtrain::sim
