#include "cli/head_args.h"

namespace ndtrain::cli {

void declare_head(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Model");
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

void declare_compute(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Computing");
  args.flag(
      "compute",
      "what training computes in: f32; with --device cuda bf16 or f16 but for the last layers, on "
      "weights of f32; with onednn bf16 on CPUs that multiply it faster (AVX-512 BF16, AMX; others "
      "train in f32 and say so)",
      "TYPE", "f32");
}

DType compute_of(const Args& args) {
  const std::string name = args.text("compute");
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (name == name_of(t)) return t;
  }
  throw UsageError("--compute " + name + ": there are f32, bf16 and f16");
}

}  // namespace ndtrain::cli
