#include "cli/augment_args.h"

#include "cli/number_args.h"
#include "framework/core/error.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::cli {

// They have no value until they are given: see declare_optimizer().
void declare_augmentation(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Training");
  args.flag(
      "augment",
      "change training photos at random: crop, a random part of 8 to 100 %; flip, half of them; "
      "cutout, a square of the mean, a quarter of the side, in epoch/epochs of them; randaugment, "
      "two of 14 operations; jitter, other colours; cutmix=A, a box of another photo; mixup=A, "
      "each mixed with another, by shares from Beta(A, A). Where a part is frozen, features are "
      "computed once: mixup is of features, and --views N keeps some of photos that are changed "
      "(default: not at all)",
      "CHANGE[,...]");
  args.flag("views",
            "where a part is frozen: features of N views of each training photo, each changed by "
            "--augment crop, flip, jitter or randaugment, are kept, and one of them is seen in an "
            "epoch (default: of the photo as it is)",
            "N");
}

ndp::Augmentation augmentation_of(const Args& args) {
  if (!args.has("augment")) return {};
  try {
    return ndp::augmentation_named(args.text("augment"));
  } catch (const Error& e) {
    throw UsageError("--augment " + args.text("augment") + ": " + e.what());
  }
}

int64_t views_of(const Args& args) {
  return args.has("views") ? integer_in(args, "views", 1, wire::kMostViews) : 0;
}

}  // namespace ndtrain::cli
