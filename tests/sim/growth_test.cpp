// What grows with the number of stores grows no faster than it.
#include "tests/sim/growth.h"

#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/testing/memory_fs.h"

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

}  // namespace
}  // namespace ndtrain::sim
