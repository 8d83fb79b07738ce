// A device, opened, and a stream of it.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/check.h"
#include "backends/cuda/fault.h"
#include "backends/plugin/tuning.h"

namespace ndtrain::cuda {

class PlanningHandle;

}  // namespace ndtrain::cuda

struct ndt_device {
  int index = 0;
  std::string description;  // for people
  std::string name;         // "Tesla T4"
  std::string numerics;
  int architecture = 0;  // 75, 80, 90
  bool deterministic = false;
  bool allow_tf32 = false;
  cublasLtHandle_t blas = nullptr;                  // may be used by several threads at once
  std::shared_ptr<ndtrain::plugin::Tuning> tuning;  // null: a fixed rule
  std::shared_ptr<ndtrain::cuda::PlanningHandle> planning;  // dnn/planning.h makes it
};

// One thread at a time works on a stream. Its cuDNN handle is made with it, so that run() makes
// nothing.
struct ndt_stream {
  ndt_device& device;
  cudaStream_t stream = nullptr;
  cudnnHandle_t dnn = nullptr;
  ndtrain::cuda::Fault* fault = nullptr;  // pinned: kernels write to it
};

namespace ndtrain::cuda {

// Makes the device current for this thread; the one before, at the end.
class Current {
 public:
  explicit Current(const ndt_device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
};

}  // namespace ndtrain::cuda
