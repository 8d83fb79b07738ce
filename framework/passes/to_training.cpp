#include <algorithm>

#include "framework/graph/op.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

class ToTraining {
 public:
  ToTraining(const Graph& g, std::span<const ValueId> trainable)
      : g_(g), tuned_(depends_on(g, trainable)), copy_(g) {}

  TrainingGraph run() {
    copy_.keep_inputs();
    for (const Node& n : g_.nodes()) {
      if (!tuned_[index(n.outputs[0])]) {
        copy_.copy(n);
      } else if (n.op == "BatchNormalization" && !n.attrs.flag("training_mode")) {
        batch_norm(n);
      } else if (n.op == "Dropout" && ratio(n) > 0) {
        dropout(n);
      } else {
        copy_.copy(n);
      }
    }
    result_.graph = copy_.finish();
    for (TrainingGraph::State& s : result_.states) result_.graph.mark_output(s.output);
    return std::move(result_);
  }

 private:
  Graph& to() { return copy_.graph(); }

  ValueId scalar(double v) {
    return to().add_constant("", Tensor::from_doubles({DType::kF32, {}}, {&v, 1}));
  }

  // PyTorch's convention, which users of these models expect: the running variance takes the
  // unbiased estimate, where ONNX's operator takes the population's. `updated` = m*old +
  // (1-m)*population.
  ValueId unbiased(ValueId old, ValueId updated, double momentum, int64_t n) {
    const ValueId kept = to().add1("Mul", {old, scalar(momentum)});
    const ValueId fresh = to().add1("Sub", {updated, kept});
    const double correction =
        static_cast<double>(n) / static_cast<double>(std::max<int64_t>(n - 1, 1));
    return to().add1("Add", {kept, to().add1("Mul", {fresh, scalar(correction)})});
  }

  void batch_norm(const Node& n) {
    Attrs attrs = n.attrs;
    attrs.set("training_mode", int64_t{1});
    std::vector<ValueId> in;
    for (ValueId v : n.inputs) in.push_back(copy_.get(v));
    const auto y = to().add("BatchNormalization", in, attrs, 3);
    const std::string& name = g_.value(n.outputs[0]).name;
    to().rename(y[0], name);
    copy_.replace(n.outputs[0], y[0]);
    const Shape& x = g_.shape(n.inputs[0]);
    const ValueId var =
        unbiased(in[4], y[2], attrs.f("momentum"), x.count() / std::max<int64_t>(x[1], 1));
    to().rename(y[1], g_.value(n.inputs[3]).name + ".next");
    to().rename(var, g_.value(n.inputs[4]).name + ".next");
    if (to().value(in[3]).kind == ValueKind::kParam) result_.states.push_back({in[3], y[1]});
    if (to().value(in[4]).kind == ValueKind::kParam) result_.states.push_back({in[4], var});
  }

  double ratio(const Node& n) const {
    if (n.inputs.size() < 2 || n.inputs[1] == kNone) return 0.5;  // ONNX's default
    const Tensor& t = g_.value(n.inputs[1]).data;
    if (!t.defined()) throw Error("Dropout: its ratio must be known in advance");
    return t.to_doubles().at(0);
  }

  void dropout(const Node& n) {
    if (result_.dropout_seed == kNone) {
      result_.dropout_seed = to().add_input("dropout_seed", {DType::kI64, {2}});
    }
    const Shape& shape = g_.shape(n.inputs[0]);
    const ValueId mask =
        to().add1("DropoutMask", {result_.dropout_seed},
                  {{"ratio", ratio(n)}, {"stream", streams_++}, {"shape", shape.dims()}});
    const ValueId y = to().add1("Mul", {copy_.get(n.inputs[0]), mask});
    to().rename(y, g_.value(n.outputs[0]).name);
    copy_.replace(n.outputs[0], y);
    if (n.outputs.size() > 1) copy_.replace(n.outputs[1], mask);
  }

  const Graph& g_;
  const std::vector<bool> tuned_;
  GraphCopy copy_;
  TrainingGraph result_;
  int64_t streams_ = 0;
};

}  // namespace

TrainingGraph to_training(const Graph& g, std::span<const ValueId> trainable) {
  return ToTraining(g, trainable).run();
}

}  // namespace ndtrain
