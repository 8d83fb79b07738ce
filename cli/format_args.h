// --format of verbs that list photos: what the file is called says it, too.
#pragma once

#include <string>

#include "cli/args.h"
#include "ndp/labels/label_files.h"

namespace ndtrain::cli {

// Of a file that is written, or of one that is read, which Parquet is not.
void declare_format(ArgsSpec& args, bool written = true);

// --format, else by the name of the file, --out, else CSV; JSON on stdout with --json. Throws
// UsageError: no such format, two of them, or Parquet without a file.
ndp::LabelFormat format_to_write(const Args& args, bool json);
// The same of a file that is there. Throws UsageError for Parquet, too.
ndp::LabelFormat format_to_read(const Args& args, const std::string& path);

}  // namespace ndtrain::cli
