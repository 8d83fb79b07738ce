// A cuDNN graph API without a device. It refuses what the documentation says is refused: attributes
// of the wrong type or number, descriptors that lack some, dims that do not fit one another, graphs
// that are none, patterns for which there is no engine. It computes in double, rounding every
// tensor to its type, when the stream of the handle does its work.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ndtrain::fake {

// What an engine is asked to take.
struct DnnPattern {
  enum class Kind { kConvolution, kFusedConvolution, kAttention, kOther } kind = Kind::kOther;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;  // of the first operation's first input
  int64_t channels = 1;                     // of that input
  bool channels_last = true;                // of all its tensors of rank 4 and more
  bool forward = true;
};

struct DnnEngine {
  std::string name;
  std::function<bool(const DnnPattern&)> takes;
  std::vector<cudnnBackendNumericalNote_t> notes = {};
  std::vector<std::pair<cudnnBackendKnobType_t, int64_t>> knobs = {};  // and their highest values
  bool fallback = false;  // suggested only by CUDNN_HEUR_MODE_FALLBACK
  bool fails = false;     // to become a plan
  int64_t workspace = 0;  // bytes for each image, all of which it overwrites
  int64_t cost = 1;       // ticks of the fake's clock, less the last knob's value
};

// Suggested in this order. Their global index is their place. Those that reset_dnn() makes:
// "by chance" (nondeterministic), "winograd", "broken" (fails), "tensor cores" (rounds f32 to tf32;
// a knob), "plain" (a workspace), "fused" (tensor cores, channels-last), "attention", "bytes" (i8
// to i32 for whole words of channels, channels-last), and "last resort" (a fallback).
void set_dnn_engines(std::vector<DnnEngine> engines);
std::vector<DnnEngine> dnn_engines();
void reset_dnn();

// What was run since the last reset_dnn(): "plain", "tensor cores:13=2", …
std::vector<std::string> dnn_runs();
size_t dnn_descriptors();  // that are not destroyed

}  // namespace ndtrain::fake
