#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/computing_args.h"
#include "cli/dim_args.h"
#include "cli/input_args.h"
#include "cli/model_precision.h"
#include "cli/photo_args.h"
#include "cli/precision_args.h"
#include "cli/verb.h"
#include "framework/onnx/import.h"
#include "framework/onnx/test_data.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

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

}  // namespace

void declare_model_verify(ArgsSpec& args) {
  args.positional("FILE", "the ONNX file");
  args.flag("data",
            "a directory with input_N.pb and output_N.pb; with --precision, photos (required)",
            "DIR");
  args.flag("rtol", "largest relative difference", "X", "1e-3");
  args.flag("atol", "largest absolute difference", "X", "1e-7");
  args.flag("interpreter", "run the double reference instead of a backend");
  args.flag("external-data",
            "let the model read weights from any file in its directory, not FILE.data alone");
  declare_dims(args);
  declare_inputs(args);
  declare_precision_flags(args);
  args.flag("against", "with --precision: the f32 model that FILE was quantised from", "FILE");
  args.flag("photos", "with --precision: at most so many are compared", "N", "1000");
  declare_label_flags(args);
  args.flag("cache", "where the list of the photos is kept (default: ~/.cache/ndtrain)", "DIR");
  declare_computing(args);
}

int run_model_verify(Context& context, const Args& args) {
  if (args.has("precision")) return verify_precision(context, args);
  const Model model = import_model(context.fs(), args.required("FILE"),
                                   {.external_data = args.on("external-data"),
                                    .dims = dims_of(args),
                                    .inputs = inputs_of(args)});
  const TestData data = read_test_data(context.fs(), args.required("data"), model).or_throw();
  const Graph g = bind(model, data.batch, data.known);
  std::vector<Tensor> got;
  if (args.on("interpreter")) {
    got = interpret_outputs(g, data.inputs);
  } else {
    const Plan plan(g, context.device());
    got = Executor(plan).run(data.inputs);
  }
  Comparison worst;
  for (size_t k = 0; k < got.size(); ++k) {
    const Comparison c = compare(got[k], as_wanted(data.outputs[k], got[k].type().dtype),
                                 args.number("rtol"), args.number("atol"));
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
