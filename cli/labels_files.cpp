// Labels as files.
#include <fmt/format.h>

#include "cli/format_args.h"
#include "cli/labels_args.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_files.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

LabelSource source_of(const Args& args) {
  if (args.has("as") && args.text("as") != "truth") {
    throw UsageError("--as " + args.text("as") + ": only truth can be said; see also --source");
  }
  if (args.has("as") && args.has("source")) {
    throw UsageError("--as and --source say the same; give one of them");
  }
  if (args.has("as")) return LabelSource::kHuman;
  if (!args.has("source")) return LabelSource::kImport;
  const auto source = label_source_named(args.text("source"));
  if (!source || *source == LabelSource::kModel) {
    throw UsageError("--source " + args.text("source") + ": there are import, human and folder");
  }
  return *source;
}

}  // namespace

void declare_labels_import(ArgsSpec& args) {
  args.positional("FILE", "CSV with the columns path,label and optionally score, time; or JSON");
  declare_database(args);
  args.flag("source", "what the labels count as: import, human or folder (default: import)",
            "NAME");
  args.flag("as", "truth: what the file says outranks what is there, as if a person said it",
            "truth");
  declare_format(args, /*written=*/false);
}

int run_labels_import(Context& context, const Args& args) {
  const LabelSource source = source_of(args);
  const std::string path = args.required("FILE");
  const LabelFormat format = format_to_read(args, path);
  const OpenLabels o = open_labels(args, /*to_read=*/false);
  const std::string text = context.fs().read(path).or_throw();
  const LabelImport r = import_labels(*o.db, o.collection, o.task, text,
                                      context.clock().unix_seconds(), source, format)
                            .or_throw();
  const Json json = {{"rows", r.rows},
                     {"added", r.added},
                     {"model_rows_left_out", r.model_rows},
                     {"unknown_photos", r.unknown_photos}};
  context.print(json, table(json));
  for (const std::string& unknown : r.unknown)
    context.progress().say("not in the collection: " + unknown);
  return kOk;
}

void declare_labels_export(ArgsSpec& args) {
  declare_database(args);
  declare_conditions(args);
  args.flag("o,out", "the file to write (default: stdout)", "FILE");
  declare_format(args);
}

int run_labels_export(Context& context, const Args& args) {
  const LabelFormat format = format_to_write(args, context.json());
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const LabelQuery query = query_of(o, args);
  if (!args.has("out")) {
    export_labels(
        *o.db, query,
        [&](std::string_view text) {
          context.print(std::string(text));
          return Status();
        },
        format)
        .or_throw();
    return kOk;
  }
  Publisher out = Publisher::start(context.fs(), args.text("out")).or_throw();
  const int64_t rows =
      export_labels(
          *o.db, query, [&](std::string_view text) { return out.write(text); }, format)
          .or_throw();
  out.commit().or_throw();
  context.print(Json{{"file", args.text("out")}, {"rows", rows}},
                fmt::format("{} labels to {}\n", rows, args.text("out")));
  return kOk;
}

}  // namespace ndtrain::cli
