#include "ndp/jobs/run_settings.h"

#include <gmock/gmock.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunSettings some() {
  return {.asked = {{"DATA", "a \"b\"\n"}, {"lr", "1e-3"}, {"nesterov", "false"}},
          .version = "1",
          .directory = "/d",
          .numerics = "cpu x",
          .model = std::string(64, 'a'),
          .photos = "3 to train on, 1 to validate",
          .digest = std::string(64, 'b')};
}

TEST(RunSettings, ComeBackFromTheRunDirectory) {
  MemoryFs fs;
  fs.make_directories("run").or_throw();
  const RunSettings s = some();
  publish(fs, "run/args.toml", to_toml(s)).or_throw();
  EXPECT_THAT(to_toml(s), HasSubstr("\nlr = \"1e-3\"\n"));
  for (const char* path : {"run", "run/args.toml"}) {
    const RunSettings back = read_run_settings(fs, path).or_throw();
    EXPECT_EQ(back.asked, s.asked);
    EXPECT_EQ(to_toml(back), to_toml(s));
  }
}

TEST(RunSettings, WhatIsNotWholeIsRefusedByName) {
  MemoryFs fs;
  EXPECT_EQ(read_run_settings(fs, "nowhere").status().code(), Code::kNotFound);
  const auto why = [&](const char* text) {
    publish(fs, "a.toml", text).or_throw();
    return read_run_settings(fs, "a.toml").status().message();
  };
  EXPECT_THAT(why("lr = \"0.1\"\n"), AllOf(HasSubstr("a.toml"), HasSubstr("older version")));
  EXPECT_THAT(why("lr = 0.1\n[begun]\n"), HasSubstr("lr is no text"));
  EXPECT_THAT(why("a = \"\n"), AllOf(HasSubstr("a.toml"), HasSubstr("line 1")));
  // Of which the library takes for granted that it is none.
  EXPECT_THAT(why("[.\n"), AllOf(HasSubstr("a.toml"), HasSubstr("no TOML")));
}

TEST(RunSettings, ASwitchThatIsOffIsAsOneThatWasNotKnownYet) {
  RunSettings before = some(), now = some();
  std::erase_if(before.asked, [](const auto& kv) { return kv.first == "nesterov"; });
  EXPECT_THAT(changed_settings(before, now), IsEmpty());
  EXPECT_THAT(changed_settings(now, before), IsEmpty());
  now.asked.back().second = "true";
  EXPECT_THAT(changed_settings(before, now), ElementsAre("--nesterov is true and was not given"));
}

TEST(RunSettings, WhatIsAnotherIsNamed) {
  RunSettings now = some();
  EXPECT_THAT(changed_settings(some(), now), IsEmpty());
  EXPECT_THAT(changed_inputs(some(), now), IsEmpty());
  EXPECT_THAT(changed_numerics(some(), now), IsEmpty());
  now.asked = {{"DATA", "elsewhere"}, {"lr", "0.1"}, {"warmup", "2"}};
  EXPECT_THAT(changed_settings(some(), now),
              ElementsAre("--lr is 0.1 and was 1e-3", "--warmup is 2 and was not given"));
  now.digest[0] = 'c';
  now.numerics = "cpu y";
  EXPECT_THAT(changed_inputs(some(), now), ElementsAre(HasSubstr("3 to train on")));
  now.model[0] = 'b';
  EXPECT_THAT(changed_inputs(some(), now),
              ElementsAre(HasSubstr("baaaaaaaaaaa… and was aaaaaaaaaaaa…"), HasSubstr("photos")));
  EXPECT_THAT(changed_numerics(some(), now), ElementsAre(HasSubstr("(cpu y, and was cpu x)")));
}

}  // namespace
}  // namespace ndtrain::ndp
