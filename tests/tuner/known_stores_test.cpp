#include "tuner/service/known_stores.h"

#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::tuner {
namespace {

TEST(KnownStores, AreKnownAgainWithWhatTheySaidUntilTheyAreForgotten) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  const KnownStore attic{.photos = 97,
                         .last_seen = 5,
                         .deletions = 2,
                         .drained = true,
                         .link = {.up = 1e8, .down = 5e7, .round_trip_s = 0.25, .measured = 9},
                         .wrong_features = "store attic makes other features"};
  {
    KnownStores stores(fs, "state");
    stores.put("attic", attic).or_throw();
    stores.put("barn", {}).or_throw();
  }
  KnownStores again(fs, "state");
  ASSERT_EQ(again.all().size(), 2U);
  EXPECT_EQ(again.all().at("attic"), attic);
  again.forget("attic").or_throw();
  EXPECT_EQ(KnownStores(fs, "state").all().size(), 1U);
}

TEST(KnownStores, WhatIsNotedOfManyIsWrittenOnce) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  KnownStores stores(fs, "state");
  stores.note("attic", {.photos = 1});
  stores.note("barn", {.photos = 2});
  EXPECT_TRUE(stores.noted());
  EXPECT_EQ(stores.all().at("barn").photos, 2U);
  EXPECT_TRUE(KnownStores(fs, "state").all().empty());
  fs.set_capacity(0);
  EXPECT_FALSE(stores.write().ok());
  EXPECT_TRUE(stores.noted()) << "it is tried again";
  fs.set_capacity(1 << 20);
  stores.write().or_throw();
  EXPECT_FALSE(stores.noted());
  EXPECT_EQ(KnownStores(fs, "state").all().size(), 2U);
  stores.note("attic", {.photos = 1});
  EXPECT_FALSE(stores.noted()) << "it is known as that";
  stores.note("attic", {.photos = 3});
  stores.put("barn", {.drained = true}).or_throw();
  EXPECT_EQ(KnownStores(fs, "state").all().at("attic").photos, 3U)
      << "with what is durable at once";
}

TEST(KnownStores, ThoseThatAnOlderVersionHadDrainedStayDrained) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  publish(fs, "state/drained.json", R"({"format": 1, "stores": ["attic"]})").or_throw();
  KnownStores stores(fs, "state");
  EXPECT_TRUE(stores.all().at("attic").drained);
  stores.put("attic", {.drained = false}).or_throw();
  EXPECT_FALSE(KnownStores(fs, "state").all().at("attic").drained) << "the newer file counts";
}

TEST(KnownStores, AFullDiskLeavesThemAsTheyWere) {
  MemoryFs fs;
  fs.make_directories("state").or_throw();
  KnownStores stores(fs, "state");
  stores.put("attic", {.photos = 1}).or_throw();
  fs.set_capacity(0);
  EXPECT_FALSE(stores.put("attic", {.photos = 2}).ok());
  EXPECT_FALSE(stores.forget("attic").ok());
  EXPECT_EQ(stores.all().at("attic").photos, 1U);
}

TEST(KnownStores, AFileOfAnotherFormatIsRefusedByName) {
  for (const char* name : {"state/stores.json", "state/drained.json"}) {
    for (const char* text : {R"({"format": 2, "stores": []})", "["}) {
      MemoryFs fs;
      fs.make_directories("state").or_throw();
      publish(fs, name, text).or_throw();
      try {
        const KnownStores stores(fs, "state");
        ADD_FAILURE() << name << " " << text;
      } catch (const Error& e) {
        EXPECT_EQ(std::string(e.what()).rfind(name, 0), 0U) << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain::tuner
