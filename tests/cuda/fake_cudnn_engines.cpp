// The engines of the fake cuDNN, and what was run by them.
#include "tests/cuda/fake_cudnn_engines.h"

#include <mutex>

namespace ndtrain::fake {
namespace {

using Kind = DnnPattern::Kind;

bool convolves(const DnnPattern& p) {
  // There is no channels-last f64.
  return p.kind == Kind::kConvolution && p.type != CUDNN_DATA_INT8 &&
         (p.type != CUDNN_DATA_DOUBLE || !p.channels_last);
}

bool convolves_single(const DnnPattern& p) { return convolves(p) && p.type != CUDNN_DATA_DOUBLE; }

bool convolves_bytes(const DnnPattern& p) {
  return p.kind == Kind::kConvolution && p.type == CUDNN_DATA_INT8 && p.channels % 4 == 0 &&
         p.channels_last && p.forward;
}

bool fuses(const DnnPattern& p) {
  return p.kind == Kind::kFusedConvolution && p.channels_last && p.type != CUDNN_DATA_DOUBLE &&
         p.type != CUDNN_DATA_INT8;
}

bool attends(const DnnPattern& p) {
  return p.kind == Kind::kAttention && (p.type == CUDNN_DATA_HALF || p.type == CUDNN_DATA_BFLOAT16);
}

std::vector<DnnEngine> usual_engines() {
  const std::vector<cudnnBackendNumericalNote_t> tensor_cores = {
      CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
  return {
      {.name = "by chance",
       .takes = convolves_single,
       .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {.name = "winograd",
       .takes = [](const DnnPattern& p) { return convolves_single(p) && p.forward; },
       .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD}},
      {.name = "broken", .takes = convolves, .fails = true},
      {.name = "tensor cores",
       .takes = convolves_single,
       .notes = tensor_cores,
       .knobs = {{CUDNN_KNOB_TYPE_TILEK, 3}},
       .cost = 9},
      {.name = "plain", .takes = convolves, .workspace = 1000, .cost = 5},
      {.name = "fused", .takes = fuses, .notes = tensor_cores},
      {.name = "attention", .takes = attends, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
      {.name = "bytes", .takes = convolves_bytes, .workspace = 64},
      {.name = "last resort", .takes = convolves, .fallback = true, .cost = 50},
  };
}

struct Engines {
  std::mutex mutex;
  std::vector<DnnEngine> list = usual_engines();
  std::vector<std::string> runs;
};

Engines& engines() {
  static Engines e;
  return e;
}

}  // namespace

void set_dnn_engines(std::vector<DnnEngine> list) {
  const std::lock_guard lock(engines().mutex);
  engines().list = std::move(list);
}

std::vector<DnnEngine> dnn_engines() {
  const std::lock_guard lock(engines().mutex);
  return engines().list;
}

void reset_dnn() {
  const std::lock_guard lock(engines().mutex);
  engines().list = usual_engines();
  engines().runs.clear();
}

std::vector<std::string> dnn_runs() {
  const std::lock_guard lock(engines().mutex);
  return engines().runs;
}

void note_dnn_run(const std::string& what) {
  const std::lock_guard lock(engines().mutex);
  engines().runs.push_back(what);
}

}  // namespace ndtrain::fake
