#include "cli/sampling_args.h"

#include "cli/number_args.h"

namespace ndtrain::cli {

// They have no value until they are given: see declare_optimizer().
void declare_selection(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "What is trained on");
  args.flag("since",
            "only photos that the label database was told of at this time or later, in Unix "
            "seconds; photos for validation all stay",
            "T");
  args.flag("label",
            "only photos of these classes; the model keeps all of them; \\, is a comma of a name",
            "CLASS[,...]");
  args.flag("sample",
            "only N photos, drawn by their content and --seed; with --truth-share, N of the older "
            "ones",
            "N");
  args.flag("truth-share",
            "with --since: what is older stays, and this share, as 0.5, of the photos drawn for an "
            "epoch is not older (default: each photo once an epoch)",
            "X");
}

void declare_weighting(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "What is trained on");
  args.flag("sampling",
            "balanced: as many photos as there are are drawn for an epoch, of each class equally "
            "often (default: each photo once an epoch)",
            "NAME");
  args.flag("class-weights",
            "what losses are multiplied by: balanced, the rarer a class the more; or weights of "
            "classes, 1 for the others (default: 1)",
            "balanced|CLASS=X[,...]");
}

ndp::Sampling sampling_of(const Args& args) {
  ndp::Sampling s;
  if (args.has("since")) s.since = args.integer("since");
  if (args.has("label")) s.labels = ndp::names_between_commas(args.text("label"));
  if (args.has("sample")) s.sample = integer_in(args, "sample", 1, INT64_MAX);
  if (args.has("truth-share")) s.truth_share = args.number("truth-share");
  s.balanced = args.has("sampling");
  if (s.balanced && args.text("sampling") != "balanced") {
    throw UsageError("--sampling " + args.text("sampling") + ": there is balanced");
  }
  s.class_weights = args.text("class-weights");
  try {
    s.check();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  return s;
}

}  // namespace ndtrain::cli
