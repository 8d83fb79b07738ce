#include "ndp/store/key_table.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/core/rng.h"

namespace ndtrain::ndp {
namespace {

KeyTable::ShortKey key_of(uint64_t i) { return KeyTable::shorten(sha256(std::to_string(i))); }

TEST(KeyTable, AgreesWithAMapUnderRandomInsertsAndErasures) {
  KeyTable table;
  std::map<KeyTable::ShortKey, Location> model;
  Rng rng(7);
  for (uint32_t step = 0; step < 20000; ++step) {
    const KeyTable::ShortKey key = key_of(rng.next_below(400));
    const auto it = model.find(key);
    const auto before = it == model.end() ? std::nullopt : std::optional(it->second);
    if (rng.next_below(2) == 0) {
      const Location at{step, step + 1, step + 2};
      ASSERT_EQ(table.insert(key, at), before) << "step " << step;
      model[key] = at;
    } else {
      ASSERT_EQ(table.erase(key), before) << "step " << step;
      model.erase(key);
    }
    ASSERT_EQ(table.size(), model.size());
  }
  for (const auto& [key, at] : model) EXPECT_EQ(table.find(key), at);
  for (const KeyTable::Entry& entry : table.entries()) EXPECT_EQ(model.at(entry.key), entry.at);
}

TEST(KeyTable, NeedsAtMost48BytesPerRecordAtAnySize) {
  KeyTable table;
  for (uint32_t i = 0; i < 200'000; ++i) {
    table.insert(key_of(i), {1, i, 2});
    if (table.size() >= 1000) {
      ASSERT_LE(table.memory_bytes(), 48 * table.size()) << i;
    }
  }
}

TEST(KeyTable, IsEmptyWithoutKeys) {
  KeyTable table;
  EXPECT_EQ(table.find(key_of(1)), std::nullopt);
  EXPECT_EQ(table.erase(key_of(1)), std::nullopt);
}

}  // namespace
}  // namespace ndtrain::ndp
