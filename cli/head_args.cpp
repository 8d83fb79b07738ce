#include "cli/head_args.h"

namespace ndtrain::cli {

void declare_head(ArgsSpec& args) {
  args.flag("head",
            "the classifier: keep, the model's own, begun anew if the classes differ; linear, "
            "pooling and one Gemm",
            "KIND", "keep");
  args.flag("add-classes", "keep the model's classes, their numbers and weights, and add new ones");
}

std::string head_of(const Args& args) {
  const std::string head = args.text("head");
  if (!args.on("add-classes")) return head;
  if (head != "keep") throw UsageError("--head " + head + " and --add-classes: give one");
  return "grow";
}

}  // namespace ndtrain::cli
