#include "cli/optimizer_args.h"

#include "cli/number_args.h"
#include "framework/train/name_pattern.h"

namespace ndtrain::cli {

namespace {

void read_betas(const std::string& text, OptimizerConfig& c) {
  const std::vector<std::string> parts = parts_of(text);
  if (parts.size() != 2) throw UsageError("--betas " + text + ": two numbers, as 0.9,0.999");
  c.beta1 = parse_finite("betas", parts[0]);
  c.beta2 = parse_finite("betas", parts[1]);
}

// Of each --lr-of, one or more between commas. That a parameter is called so is seen later.
void read_rates(const Args& args, OptimizerConfig& c) {
  for (const std::string& part : rates_of_names(args)) {
    const auto rate = numbered_pattern(part);
    if (!rate) {
      throw UsageError("--lr-of " + part +
                       ": a parameter's name, in which * is anything, then = and a number from 0");
    }
    c.lr_of.push_back(*rate);
  }
}

}  // namespace

std::vector<std::string> rates_of_names(const Args& args) {
  std::vector<std::string> all;
  for (const std::string& list : args.list("lr-of")) {
    for (const std::string& part : parts_of(list)) all.push_back(part);
  }
  return all;
}

// Where a run of an earlier version is gone on with, flags it did not know must not look as if they
// had changed: they have no value until they are given.
void declare_optimizer(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Optimizer");
  args.flag("opt", "optimizer: sgd, adam, adamw or rmsprop", "NAME", "adam");
  args.flag("momentum", "momentum of sgd and rmsprop", "X", "0.9");
  args.flag("dampening", "of sgd: the share of a gradient that momentum leaves out (default: 0)",
            "X");
  args.flag("nesterov", "Nesterov momentum for sgd");
  args.flag("alpha", "of rmsprop: how much of the mean square stays at a step (default: 0.99)",
            "X");
  args.flag("centered", "rmsprop divides by the deviation from the mean gradient");
  args.flag("betas",
            "of adam and adamw: how much of the mean gradient and of the mean square stays at a "
            "step (default: 0.9,0.999)",
            "B1,B2");
  args.flag("eps", "added to what adam, adamw and rmsprop divide by (default: 1e-8)", "X");
  args.flag("amsgrad", "adam and adamw divide by the largest second moment so far");
  args.flag("weight-decay", "weight decay", "X", "0");
  args.flag("layer-decay",
            "each layer learns at X times the rate of the one behind it, the last one at --lr; "
            "layers are those that --freeze N counts (default: 1, all alike)",
            "X");
  args.flag(
      "lr-of",
      "parameters of this name learn at F times the rate that they had without: fc.weight=10, "
      "or all of such names, layer1.*=0.1 or *.bias=2; more than one between commas, or given "
      "again; the last that fits counts",
      "NAME=F");
  args.flag(
      "clip-norm",
      "the gradients of a step are shortened to this norm, all together (default: not at all)",
      "X");
  args.flag("ema",
            "keep an exponential moving average of the weights, of which DECAY stays at a step, "
            "0.999, say: it is evaluated and written instead of the weights (default: none)",
            "DECAY");
  args.flag("accumulate",
            "compute each step's --batch photos in N parts one after the other, which takes the "
            "memory of a part; N changes no --batch, and only batch statistics see it (default: 1)",
            "N");
}

OptimizerConfig optimizer_of(const Args& args) {
  OptimizerConfig c;
  c.kind = optimizer_named(args.text("opt"));
  c.momentum = args.number("momentum");
  if (args.has("dampening")) c.dampening = args.number("dampening");
  c.nesterov = args.on("nesterov");
  if (args.has("alpha")) c.alpha = args.number("alpha");
  if (args.has("betas")) read_betas(args.text("betas"), c);
  if (args.has("eps")) c.epsilon = args.number("eps");
  c.centered = args.on("centered");
  c.amsgrad = args.on("amsgrad");
  c.weight_decay = args.number("weight-decay");
  if (args.has("layer-decay")) c.layer_decay = args.number("layer-decay");
  read_rates(args, c);
  if (args.has("clip-norm")) c.clip_norm = args.number("clip-norm");
  if (args.has("ema")) {
    c.ema = args.number("ema");
    if (!(c.ema > 0 && c.ema < 1)) {
      throw UsageError("--ema " + args.text("ema") + ": above 0 and below 1, as 0.999");
    }
  }
  try {
    c.check();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return c;
}

int64_t accumulate_of(const Args& args) {
  const int64_t parts = args.has("accumulate") ? args.integer("accumulate") : 1;
  if (parts < 1) throw UsageError("--accumulate " + args.text("accumulate") + ": at least 1");
  return parts;
}

void declare_best(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Training");
  args.flag("best",
            "what says which epoch is best, of the validation photos: top1, top5, loss or macro-f1 "
            "(default: top1)",
            "METRIC");
}

ndp::BestMetric best_of(const Args& args) {
  if (!args.has("best")) return ndp::BestMetric::kTop1;
  try {
    return ndp::best_metric_named(args.text("best"));
  } catch (const Error& e) {
    throw UsageError("--best " + args.text("best") + ": " + e.what());
  }
}

void declare_schedule(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Optimizer");
  args.flag("sched",
            "learning rate over the steps of a run: constant; step, a tenth after each third; "
            "cosine and polynomial (of power 2), to 0; exponential, .97 of it after each epoch; or "
            "ndpipe (five steps)",
            "NAME", "constant");
  args.flag("warmup", "epochs over which the learning rate rises to --lr", "X", "0");
}

}  // namespace ndtrain::cli
