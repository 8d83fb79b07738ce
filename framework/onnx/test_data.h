// Inputs and outputs of a model in the form of ONNX's own tests: a directory of input_N.pb and
// output_N.pb, numbered as the model's inputs and outputs are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/graph/model.h"

namespace ndtrain {

struct TestData {
  int64_t batch = 1;
  std::map<std::string, Tensor> known;  // inputs that decide shapes: bind(model, batch, known)
  std::vector<Tensor> inputs;           // the others, in the order in which bind() leaves them
  std::vector<Tensor> outputs;          // one per output of the model
};

// bf16 written as u16 is taken for what the model declares; an input that nothing reads, and whose
// data need not fit, is zeros. kCorrupt when files are missing, too many or no tensors.
Result<TestData> read_test_data(Fs& fs, const std::string& directory, const Model& model);

// `t`, or where bf16 is wanted and `t` is u16, its bits as bf16: ONNX's own test data is written
// so.
Tensor as_wanted(const Tensor& t, DType wanted);

}  // namespace ndtrain
