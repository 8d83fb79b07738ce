#include "cli/training_args.h"

#include "cli/augment_args.h"
#include "cli/head_args.h"
#include "cli/optimizer_args.h"
#include "cli/sampling_args.h"

namespace ndtrain::cli {

void declare_training_rules(ArgsSpec& args) {
  declare_head(args);
  {
    const ArgsSpec::Heading heading(args, "Training");
    args.flag("e,epochs", "passes over the training photos", "N", "15");
    args.flag("b,batch", "photos per step", "N", "64");
    args.flag("lr", "learning rate", "X", "0.001");
    args.flag("label-smoothing", "share of each target that is spread over all classes", "X", "0");
    args.flag("patience", "stop after N epochs without a better --best; 0: never", "N", "0");
    args.flag("calibrate",
              "divide the classifier by the temperature that fits probabilities to the validation "
              "photos; no prediction changes by it");
  }
  declare_augmentation(args);
  declare_best(args);
  declare_selection(args);
  declare_weighting(args);
  declare_optimizer(args);
  declare_schedule(args);
}

}  // namespace ndtrain::cli
