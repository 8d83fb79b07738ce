#pragma once

#include "cli/args.h"
#include "framework/onnx/export.h"

namespace ndtrain::cli {

// --opset, of a verb that writes a model.
void declare_opset(ArgsSpec& args);
ExportOptions export_options(const Args& args);  // throws UsageError

}  // namespace ndtrain::cli
