#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/verb.h"
#include "framework/onnx/import.h"
#include "framework/onnx/tensor_file.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain::cli {
namespace {

std::vector<Tensor> read_numbered(Fs& fs, const std::string& directory, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (;;) {
    const std::string path = join(directory, fmt::format("{}_{}.pb", kind, tensors.size()));
    if (!fs.exists(path)) return tensors;
    tensors.push_back(read_tensor_file(fs, path).or_throw().tensor);
  }
}

// The largest |got - expected|, and whether every element is within atol + rtol * |expected|.
struct Comparison {
  double largest = 0, largest_expected = 0;
  bool within = true;
};

Comparison compare(const Tensor& got, const Tensor& expected, double rtol, double atol) {
  if (got.type() != expected.type()) {
    throw Error("the model gives ", got.type(), " where ", expected.type(), " is expected");
  }
  Comparison c;
  const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]);
    c.within &= difference <= atol + rtol * std::abs(b[i]);
    c.largest = std::max(c.largest, std::isnan(difference) ? HUGE_VAL : difference);
  }
  for (double x : b)
    c.largest_expected = std::max(c.largest_expected, std::isfinite(x) ? std::abs(x) : 0);
  return c;
}

// The batch of a model with a symbolic one, from the data.
int64_t batch_of(const Model& m, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    const std::vector<int64_t>& dims = m.inputs[i].dims;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == kBatch) return inputs[i].shape()[static_cast<int>(d)];
    }
  }
  return 1;
}

}  // namespace

void declare_model_verify(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file");
  args.flag("data", "a directory with input_N.pb and output_N.pb", "DIR");
  args.flag("rtol", "largest relative difference", "X", "1e-3");
  args.flag("atol", "largest absolute difference", "X", "1e-7");
  args.flag("interpreter", "run the double reference instead of a backend");
  args.flag("external-data", "let the model read weights from other files in its directory");
}

int run_model_verify(Context& context, const Args& args) {
  const Model model = import_model(context.fs(), args.required("FILE"),
                                   {.external_data = args.on("external-data")});
  const std::string data = args.required("data");
  const std::vector<Tensor> inputs = read_numbered(context.fs(), data, "input");
  const std::vector<Tensor> expected = read_numbered(context.fs(), data, "output");
  if (inputs.size() < model.inputs.size() || expected.size() != model.outputs.size()) {
    throw Error(data, " has ", inputs.size(), " inputs and ", expected.size(),
                " outputs, the model ", model.inputs.size(), " and ", model.outputs.size());
  }
  std::map<std::string, Tensor> known;
  const std::vector<std::string> decide = shape_inputs(model);
  std::vector<Tensor> given;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    if (std::ranges::find(decide, model.inputs[i].name) != decide.end()) {
      known[model.inputs[i].name] = inputs[i];
    } else {
      given.push_back(inputs[i]);
    }
  }
  const Graph g = bind(model, batch_of(model, inputs), known);
  std::vector<Tensor> got;
  if (args.on("interpreter")) {
    got = interpret_outputs(g, given);
  } else {
    const Plan plan(g, context.device());
    got = Executor(plan).run(given);
  }
  Comparison worst;
  for (size_t k = 0; k < got.size(); ++k) {
    const Comparison c = compare(got[k], expected[k], args.number("rtol"), args.number("atol"));
    worst.within &= c.within;
    worst.largest = std::max(worst.largest, c.largest);
    worst.largest_expected = std::max(worst.largest_expected, c.largest_expected);
  }
  const Json json = {{"largest_error", worst.largest},
                     {"largest_output", worst.largest_expected},
                     {"outputs", got.size()},
                     {"pass", worst.within}};
  context.print(json, table(json));
  return worst.within ? kOk : kFailed;
}

}  // namespace ndtrain::cli
