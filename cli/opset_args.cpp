#include "cli/opset_args.h"

#include "cli/number_args.h"
#include "framework/onnx/onnx_model.h"

namespace ndtrain::cli {

void declare_opset(ArgsSpec& args) {
  args.flag("opset",
            "ONNX's opset to write, 17 to 28 (default: 17, or the first that has what is in the "
            "model)",
            "N");
}

ExportOptions export_options(const Args& args) {
  if (!args.has("opset")) return {};
  return {.opset = static_cast<int>(integer_in(args, "opset", kLeastExportOpset, kMaxOpset))};
}

}  // namespace ndtrain::cli
