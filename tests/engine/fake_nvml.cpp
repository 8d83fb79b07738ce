// A libnvidia-ml with three devices, of which the last does not count its energy.
namespace {

constexpr unsigned kDevices = 3;
constexpr int kNotSupported = 3, kUnknown = 999;

unsigned long long energy[kDevices];  // millijoules
int begun = 0;
bool lost = false;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++begun;
  return 0;
}
int nvmlShutdown() {
  --begun;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kDevices;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) {
  *device = &energy[i];
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (begun < 1 || lost) return kUnknown;
  if (device == &energy[kDevices - 1]) return kNotSupported;
  *millijoules = *static_cast<unsigned long long*>(device);
  return 0;
}

// What a test says.
void fake_nvml_set(unsigned device, unsigned long long millijoules) {
  energy[device] = millijoules;
}
void fake_nvml_lose() { lost = true; }
int fake_nvml_begun() { return begun; }
}
