#include "ndp/engine/energy.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "tests/support/paths.h"

namespace ndtrain::ndp {
namespace {

constexpr char kNoLibrary[] = "libthere-is-none.so.1";

class Counters : public ::testing::Test {
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
  EnergyMeter meter(fs_, "rapl", kNoLibrary);
  set("intel-rapl:0", "energy_uj", 1'500'000);
  set("intel-rapl:1", "energy_uj", 3'000'000);
  set("intel-rapl:0:0", "energy_uj", 9'000'000);
  EXPECT_DOUBLE_EQ(meter.take().value(), 2.5);
  EXPECT_DOUBLE_EQ(meter.take().value(), 0);
}

TEST_F(Counters, ThatStartOverGoOn) {
  set("intel-rapl:0", "energy_uj", 9'000'000);
  set("intel-rapl:0", "max_energy_range_uj", 10'000'000);
  EnergyMeter meter(fs_, "rapl", kNoLibrary);
  set("intel-rapl:0", "energy_uj", 500'000);
  EXPECT_DOUBLE_EQ(meter.take().value(), 1.5);
}

TEST_F(Counters, ThatAreNotThereGiveNothing) {
  EXPECT_FALSE(EnergyMeter(fs_, "rapl", kNoLibrary).take());
  set("intel-rapl:0", "name", 0);
  EXPECT_FALSE(EnergyMeter(fs_, "rapl", kNoLibrary).take());
}

const std::string kNvml = support::build_path("/tests/engine/libfake_nvml.so");

// The library that the meter opens too, and what a test says to it.
class FakeNvml {
 public:
  FakeNvml() : library_(dlopen(kNvml.c_str(), RTLD_NOW)) {}
  ~FakeNvml() { dlclose(library_); }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  void set(unsigned device, unsigned long long millijoules) {
    function<void(unsigned, unsigned long long)>("fake_nvml_set")(device, millijoules);
  }
  void lose() { function<void()>("fake_nvml_lose")(); }
  int begun() { return function<int()>("fake_nvml_begun")(); }

 private:
  template <typename F>
  F* function(const char* name) {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  void* library_;
};

TEST_F(Counters, OfGpusAddUpWithThoseOfProcessors) {
  FakeNvml nvml;
  nvml.set(0, 5000);
  nvml.set(1, 7000);
  set("intel-rapl:0", "energy_uj", 1'000'000);
  set("intel-rapl:0", "max_energy_range_uj", 10'000'000);
  {
    EnergyMeter both(fs_, "rapl", kNvml), gpus(fs_, "none", kNvml);
    set("intel-rapl:0", "energy_uj", 2'000'000);
    nvml.set(0, 5250);
    nvml.set(1, 9000);
    EXPECT_DOUBLE_EQ(both.take().value(), 3.25);
    EXPECT_DOUBLE_EQ(gpus.take().value(), 2.25);
    EXPECT_DOUBLE_EQ(gpus.take().value(), 0);
    EXPECT_EQ(nvml.begun(), 2);
    nvml.lose();
    EXPECT_FALSE(gpus.take());
    EXPECT_DOUBLE_EQ(both.take().value(), 0) << "of the processors";
  }
  EXPECT_EQ(nvml.begun(), 0);
}

}  // namespace
}  // namespace ndtrain::ndp
