#include "cli/precision_args.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_precision_flags(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Computing");
  args.flag("precision",
            "in which the frozen network computes: f32, bf16, f16, int8, or auto, bf16 where this "
            "machine (of a job: every store) is faster with it (default: as the model declares); "
            "anything below f32 is compared with it first, on some of the photos",
            "NAME");
  args.flag("max-drop", "points of top-1 that less precision may cost", "X", "0.5");
}

PrecisionConfig precision_config(const Args& args, const std::string& cache) {
  PrecisionConfig c{.precision = args.text("precision"), .cache = cache};
  if (!c.precision.empty() && c.precision != "auto") {
    try {
      precision_named(c.precision);
    } catch (const Error&) {
      throw UsageError("--precision " + c.precision + ": there are f32, bf16, f16, int8 and auto");
    }
  }
  c.max_drop = args.number("max-drop");
  if (!(c.max_drop >= 0)) throw UsageError("--max-drop " + args.text("max-drop") + ": at least 0");
  return c;
}

}  // namespace ndtrain::cli
