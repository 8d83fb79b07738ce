#include "cli/computing_args.h"

namespace ndtrain::cli {
namespace {

constexpr const char* kComputing = "Computing";

}  // namespace

void declare_seed(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, kComputing);
  args.flag("seed", "seed of everything random", "N", "0");
}

void declare_threads(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, kComputing);
  args.flag("j,threads", "threads; 0 takes all cores", "N", "0");
}

void declare_computing(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, kComputing);
  args.flag("device", "a backend that ndtrain doctor lists (default: the first of them)", "NAME");
  declare_threads(args);
  args.flag("less-memory",
            "networks take less memory and more time: no convolution by algorithms whose weights "
            "are larger");
  args.flag("tf32",
            "with --device cuda: products and convolutions of f32 round their factors to 11 bits, "
            "which is faster");
  args.flag("tuning",
            "which algorithms layers take, as ndtrain tune measured it (default: a fixed rule)",
            "FILE");
}

}  // namespace ndtrain::cli
