#include "cli/format_args.h"

#include <array>
#include <string_view>
#include <utility>

#include "framework/core/error.h"

namespace ndtrain::cli {
using ndp::LabelFormat;

namespace {

constexpr std::array<std::pair<std::string_view, LabelFormat>, 4> kFormats = {
    {{"csv", LabelFormat::kCsv},
     {"jsonl", LabelFormat::kJsonLines},
     {"json", LabelFormat::kJson},
     {"parquet", LabelFormat::kParquet}}};

LabelFormat format_of(const Args& args, const std::string& path) {
  for (const auto& [name, format] : kFormats) {
    if (args.has("format") ? args.text("format") == name
                           : path.ends_with("." + std::string(name))) {
      return format;
    }
  }
  if (!args.has("format")) return LabelFormat::kCsv;
  throw UsageError("--format " + args.text("format") + ": there are csv, jsonl, json and parquet");
}

}  // namespace

void declare_format(ArgsSpec& args, bool written) {
  args.flag("format",
            written ? "csv, jsonl (a JSON object on each line), json or parquet (default: by the "
                      "file's name, else csv)"
                    : "csv, jsonl (a JSON object on each line) or json (default: by the file's "
                      "name, else csv)",
            "NAME");
}

LabelFormat format_to_write(const Args& args, bool json) {
  const LabelFormat format = format_of(args, args.text("out"));
  if (args.has("out")) return format;
  if (json && args.has("format") && format != LabelFormat::kJson) {
    throw UsageError("--json and --format " + args.text("format") + ": give one");
  }
  if (format == LabelFormat::kParquet) {
    throw UsageError("--format parquet: is no text; give --out FILE");
  }
  return json ? LabelFormat::kJson : format;
}

LabelFormat format_to_read(const Args& args, const std::string& path) {
  const LabelFormat format = format_of(args, path);
  if (format == LabelFormat::kParquet) {
    throw UsageError(path + ": Parquet is written, but not read; give csv, jsonl or json");
  }
  return format;
}

}  // namespace ndtrain::cli
