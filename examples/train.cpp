// Transfer learning in one page: loads an ONNX model, splits it, differentiates and trains the part
// behind the cut, saves. The "photos" are noise, bright on the left (class 0) or right (class 1).
#include <iostream>

#include "framework/core/rng.h"
#include "framework/graph/split.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/runtime/executor.h"
#include "framework/train/head.h"
#include "framework/train/step_graph.h"
using namespace ndtrain;

int main(int argc, char** argv) try {
  if (argc != 3) throw Error("usage: train MODEL.onnx TRAINED.onnx");
  constexpr int64_t kClasses = 2, kRows = 32, kSteps = 100;
  Model model = with_new_classifier(import_model(real_fs(), argv[1]), kClasses, /*seed=*/0);
  const std::vector<std::string> names = trainable_parameters(model, /*freeze=*/"auto");
  const Graph whole = bind(model, kRows);
  std::vector<ValueId> weights;
  for (const std::string& name : names) weights.push_back(whole.find(name));
  const Split halves = split(whole, weights);

  Tensor photos(whole.type(whole.inputs()[0]));
  std::vector<int64_t> labels;
  const int64_t width = photos.shape()[3], size = photos.shape().count() / kRows;
  for (int64_t row = 0; row < kRows; ++row) labels.push_back(row % kClasses);
  for (int64_t k = 0; k < kRows * size; ++k) {
    const int64_t bright_half = labels[k / size], half = 2 * (k % width) / width;
    photos.mutable_as<float>()[k] = (half == bright_half) + 0.1 * Rng(0).normal(k);
  }
  const Device cpu(Backend::find("cpu"));
  std::vector<Tensor> bindings = Executor(Plan(halves.extractor, cpu)).run(std::vector{photos});
  bindings.push_back(Tensor::i64(labels));
  bindings.push_back(Tensor::of(DType::kF32, {kRows}, std::vector<float>(kRows, 1.0F / kRows)));
  for (const std::string& name : names) bindings.push_back(model.initialisers.at(name));

  // Forward, loss and, by differentiate(), backward; the outputs are loss, logits, gradients.
  const StepGraph step = make_step_graph(halves.trainable, names, /*label_smoothing=*/0);
  const Plan plan(step.graph, cpu, {.bound_params = step.trainable});
  Executor executor(plan);
  for (int64_t i = 0; i <= kSteps; ++i) {
    const std::vector<Tensor> results = executor.run(bindings);
    if (i % 20 == 0) std::cout << "step " << i << " loss " << results[0].as<float>()[0] << "\n";
    for (size_t p = 0; p < names.size(); ++p) {  // w -= 0.5 dw, and into the model
      Tensor& w = model.initialisers.at(names[p]);
      std::vector<double> values = w.to_doubles(), slope = results[2 + p].to_doubles();
      for (size_t k = 0; k < values.size(); ++k) values[k] -= 0.5 * slope[k];
      bindings[bindings.size() - names.size() + p] = w = Tensor::from_doubles(w.type(), values);
    }
  }
  export_model(real_fs(), argv[2], model).or_throw();
} catch (const std::exception& e) {
  std::cerr << "train: " << e.what() << '\n';
  return 1;
}
