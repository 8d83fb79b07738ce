#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/onnx/tensor_extents.h"
#include "framework/onnx/tensor_file.h"
#include "framework/testing/memory_fs.h"
#include "tests/deltas/some_model.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/ops/example_model.h"
#include "tests/support/files.h"

namespace ndtrain::fuzz {
namespace {

constexpr const char* kFile = "t.pb";

bool read_model(std::string_view input) {
  const bool has_extents = tensor_extents(input).ok();
  import_model(std::string(input));
  return has_extents;
}

std::vector<std::string> models() {
  std::vector<std::string> seeds = {export_model(testing::some_model(3))};
  for (const OpDef& def : all_ops()) {
    if (def.examples.empty() || def.facts.onnx == 0) continue;
    try {
      seeds.push_back(export_model(example_model(def, def.examples.front()).model));
    } catch (const Error&) {
    }  // no ONNX file has it
  }
  return seeds;
}

bool read_tensor(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, kFile, input);
  return read_tensor_file(fs, kFile).ok();
}

std::vector<std::string> tensors() {
  std::vector<std::string> seeds;
  for (const DType dtype : {DType::kF32, DType::kU8, DType::kI64, DType::kBF16}) {
    MemoryFs fs;
    write_tensor_file(fs, kFile, {"t", Tensor({dtype, {2, 3}})}).or_throw();
    seeds.push_back(fs.read(kFile).or_throw());
  }
  return seeds;
}

}  // namespace

std::vector<FuzzTarget> onnx_targets() {
  return {{"onnx", read_model, models}, {"tensor", read_tensor, tensors}};
}

}  // namespace ndtrain::fuzz
