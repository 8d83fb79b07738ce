// A PipeStore whose process stands still, as one does whose machine is cut off.
#include <chrono>
#include <string>
#include <thread>

#include "tests/cli/site_fixture.h"

namespace ndtrain {
namespace {

using std::chrono::steady_clock;

class FrozenStore : public testing_cli::SiteTest {
 protected:
  bool here(const Json& site) const {
    const Json all = ask(site, {"store", "ls"});
    return all.size() == 1 && all[0].at("here") == true;
  }
};

// How soon, tests/wire/silence_test.cpp holds.
TEST_F(FrozenStore, IsNoticedAndTakenBack) {
  draw_photos(4);
  const Json site = up_json(1);
  ASSERT_TRUE(comes([&] { return here(site); }));
  const cli::ProcessId store = process("store1");
  kill(store.pid, SIGSTOP);
  const auto frozen = steady_clock::now();
  EXPECT_TRUE(comes([&] { return !here(site); }));
  const std::chrono::duration<double> noticed = steady_clock::now() - frozen;
  RecordProperty("noticed_s", std::to_string(noticed.count()));
  kill(store.pid, SIGCONT);
  EXPECT_TRUE(comes([&] { return here(site); }));
  EXPECT_TRUE(cli::is_running(store));
}

TEST_F(FrozenStore, IsNotGivenUpForAFewSeconds) {
  draw_photos(4);
  const Json site = up_json(1);
  ASSERT_TRUE(comes([&] { return here(site); }));
  const cli::ProcessId store = process("store1");
  kill(store.pid, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  kill(store.pid, SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_TRUE(here(site));
  const std::string log = real_fs().read(at("site/tuner.log")).or_throw();
  EXPECT_EQ(log.find("silent"), std::string::npos) << log;
}

}  // namespace
}  // namespace ndtrain
