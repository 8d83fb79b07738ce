#include "ndp/engine/energy.h"

#include <gtest/gtest.h>

#include "framework/core/memory_fs.h"
#include "framework/core/publish.h"

namespace ndtrain {
namespace {

class Counters : public testing::Test {
 protected:
  void set(const std::string& package, const std::string& file, uint64_t value) {
    fs_.make_directories("rapl/" + package).or_throw();
    publish(fs_, "rapl/" + package + "/" + file, std::to_string(value) + "\n").or_throw();
  }
  MemoryFs fs_;
};

TEST_F(Counters, PackagesAddUpAndTheirPartsDoNot) {
  for (const char* name : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"}) {
    set(name, "energy_uj", 1'000'000);
    set(name, "max_energy_range_uj", 10'000'000);
  }
  EnergyMeter meter(fs_, "rapl");
  set("intel-rapl:0", "energy_uj", 1'500'000);
  set("intel-rapl:1", "energy_uj", 3'000'000);
  set("intel-rapl:0:0", "energy_uj", 9'000'000);
  EXPECT_DOUBLE_EQ(meter.take().value(), 2.5);
  EXPECT_DOUBLE_EQ(meter.take().value(), 0);
}

TEST_F(Counters, ThatStartOverGoOn) {
  set("intel-rapl:0", "energy_uj", 9'000'000);
  set("intel-rapl:0", "max_energy_range_uj", 10'000'000);
  EnergyMeter meter(fs_, "rapl");
  set("intel-rapl:0", "energy_uj", 500'000);
  EXPECT_DOUBLE_EQ(meter.take().value(), 1.5);
}

TEST_F(Counters, ThatAreNotThereGiveNothing) {
  EXPECT_FALSE(EnergyMeter(fs_, "rapl").take());
  set("intel-rapl:0", "name", 0);
  EXPECT_FALSE(EnergyMeter(fs_, "rapl").take());
}

}  // namespace
}  // namespace ndtrain
