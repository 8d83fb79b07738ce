#include "backends/cuda/devices.h"

#include <set>

#include "backends/cuda/version.h"
#include "backends/plugin/host.h"

namespace ndtrain::cuda {
namespace {

int architecture_of(const cudaDeviceProp& prop) { return 10 * prop.major + prop.minor; }

cudaDeviceProp properties(int index) {
  cudaDeviceProp prop{};
  check(cudaGetDeviceProperties(&prop, index), text_of("ask for device ", index));
  return prop;
}

std::string libraries() {
  return text_of("cudnn ", cudnnGetVersion(), " cublasLt ", cublasLtGetVersion());
}

// "12.8" of 12080, as the driver and the runtime count.
std::string version_text(int version) { return text_of(version / 1000, '.', version % 1000 / 10); }

std::string numerics_of(const std::set<int>& architectures) {
  std::string text = "cuda " NDT_CUDA_VERSION " ";
  for (const int a : architectures) text += text_of("sm_", a, ' ');
  return text + libraries();
}

std::string describe(const cudaDeviceProp& prop) {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "ask for the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "ask for the runtime's version");
  return text_of(static_cast<const char*>(prop.name), ", sm_", architecture_of(prop), ", ",
                 prop.totalGlobalMem >> 20, " MiB; driver for CUDA ", version_text(driver),
                 ", runtime ", version_text(runtime), ", ", libraries());
}

}  // namespace

int count_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  int driver = 0;
  if (error != cudaSuccess) cudaGetLastError();
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      driver == 0) {
    throw Failure(NDT_INVALID, "there is no CUDA driver on this machine");
  }
  if (error != cudaErrorNoDevice) check(error, "ask for CUDA devices");
  if (count == 0) throw Failure(NDT_INVALID, "the CUDA driver finds no device");
  return count;
}

std::string numerics_of_devices() {
  std::set<int> architectures;
  try {
    for (int i = count_devices(); i-- > 0;) architectures.insert(architecture_of(properties(i)));
  } catch (const Failure&) {  // then there is nothing to compute on
  }
  return numerics_of(architectures);
}

void CloseDevice::operator()(ndt_device* device) const {
  if (device && device->blas) cublasLtDestroy(device->blas);
  delete device;
}

OpenDevice open_device(int index, const ndt_options* options) {
  const int count = count_devices();
  if (index < 0 || index >= count) {
    invalid("there are ", count, " CUDA devices, from 0; asked for ", index);
  }
  const cudaDeviceProp prop = properties(index);
  OpenDevice opened(new ndt_device);
  opened->index = index;
  opened->name = static_cast<const char*>(prop.name);
  opened->architecture = architecture_of(prop);
  opened->description = describe(prop);
  opened->numerics = numerics_of({opened->architecture});
  if (opened->architecture < NDT_CUDA_LOWEST) {
    unsupported(opened->name, " is of architecture sm_", opened->architecture,
                ", this plugin is built for sm_", NDT_CUDA_LOWEST, " and later");
  }
  const Current current(*opened);
  check(cublasLtCreate(&opened->blas), "open cuBLASLt");
  if (!options) return opened;
  opened->deterministic = options->deterministic != 0;
  opened->allow_tf32 = options->allow_tf32 != 0;
  if (opened->allow_tf32) opened->numerics += " tf32";
  opened->tuning = Tuning::open(*options, {"cuda", opened->name, libraries(), host().log});
  if (opened->tuning) {
    opened->numerics += opened->tuning->digest();
    opened->description += "; " + opened->tuning->description();
  }
  return opened;
}

}  // namespace ndtrain::cuda
