#include <fmt/format.h>

#include "cli/verb.h"
#include "framework/core/csv.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_csv.h"
#include "ndp/labels/label_db.h"

namespace ndtrain::cli {
namespace {

struct OpenLabels {
  std::unique_ptr<LabelDb> db;
  int64_t collection, task;
};

void declare_database(ArgsSpec& args) {
  args.flag("db", "the label database, as relabel makes it (required)", "sqlite:FILE");
  args.flag("collection", "collection of photos", "NAME", std::string(kDefaultCollection));
  args.flag("task", "which classifier's labels", "NAME", std::string(kDefaultTask));
}

// A new task begins with the first label that somebody gives; to read, it must be there.
OpenLabels open_labels(const Args& args, bool to_read) {
  OpenLabels o{open_label_db(args.required("db"), OpenLabelDb::kExisting).or_throw(), 0, 0};
  o.collection = existing_collection(*o.db, args.required("collection")).or_throw();
  const std::string task = args.required("task");
  o.task = (to_read ? existing_task(*o.db, task) : o.db->task(task)).or_throw();
  return o;
}

void declare_conditions(ArgsSpec& args) {
  args.flag("label", "only this class", "NAME");
  args.flag("min-score", "only scores of at least this", "X");
  args.flag("max-score", "only scores of at most this", "X");
  args.flag("source", "only labels by human, import, folder or model", "NAME");
  args.flag("since", "only labels from this time on, in Unix seconds", "T");
  args.flag("until", "only labels up to this time, in Unix seconds", "T");
}

LabelQuery query_of(const OpenLabels& o, const Args& args) {
  LabelQuery q{.collection = o.collection, .task = o.task};
  if (args.has("label")) {
    for (const ClassInfo& c : o.db->classes(o.task).or_throw()) {
      if (c.name == args.text("label")) q.class_id = c.id;
    }
    if (!q.class_id) throw Error("no class of this task is called '", args.text("label"), "'");
  }
  if (args.has("min-score")) q.min_score = args.number("min-score");
  if (args.has("max-score")) q.max_score = args.number("max-score");
  if (args.has("since")) q.since = args.integer("since");
  if (args.has("until")) q.until = args.integer("until");
  if (args.has("source")) {
    const auto source = label_source_named(args.text("source"));
    if (!source) {
      throw UsageError("--source " + args.text("source") +
                       ": there are human, import, folder and model");
    }
    q.sources = {*source};
  }
  return q;
}

Json to_json(const LabelRow& r) {
  Json j = {{"path", r.path}, {"label", r.class_name}};
  if (r.score) j["score"] = *r.score;
  j["source"] = name_of(r.source);
  if (r.version) j["version"] = *r.version;
  j["time"] = r.time;
  return j;
}

}  // namespace

void declare_labels_query(ArgsSpec& args) {
  declare_database(args);
  declare_conditions(args);
  args.flag("limit", "at most this many rows; 0: all", "N", "100");
}

int run_labels_query(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  LabelQuery q = query_of(o, args);
  const int64_t limit = args.integer("limit");
  Json rows = Json::array();
  std::string csv = csv_row({"path", "label", "score", "source", "version", "time"});
  int64_t n = 0;
  for (bool more = true; more && (limit <= 0 || n < limit);) {
    q.limit = limit <= 0 ? 1000 : std::min<int64_t>(1000, limit - n);
    const LabelPage page = o.db->query(q).or_throw();
    for (const LabelRow& r : page.rows) {
      ++n;
      rows.push_back(to_json(r));
      csv += csv_row({r.path, r.class_name, r.score ? fmt::format("{:.6f}", *r.score) : "",
                      std::string(name_of(r.source)), r.version ? std::to_string(*r.version) : "",
                      std::to_string(r.time)});
    }
    more = page.next.has_value();
    if (more) q.after = *page.next;
  }
  context.print(rows, csv);
  return kOk;
}

void declare_labels_set(ArgsSpec& args) {
  args.positional("PHOTO", "its path below the directory that was relabelled");
  args.positional("CLASS", "what it shows; a new name begins a new class");
  declare_database(args);
}

int run_labels_set(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/false);
  const std::string photo = args.required("PHOTO"), name = args.required("CLASS");
  const Status s =
      set_label(*o.db, o.collection, o.task, photo, name, context.clock().unix_seconds());
  if (s.code() == Code::kNotFound) {
    throw Error("the collection has no photo '", photo,
                "'; relabel its directory first, and give the path below it");
  }
  s.or_throw();
  context.print(Json{{"path", photo}, {"label", name}, {"source", "human"}},
                photo + " is now " + name + "\n");
  return kOk;
}

void declare_labels_import(ArgsSpec& args) {
  args.positional("CSV", "a file with the columns path,label and optionally score, time");
  declare_database(args);
  args.flag("source", "what the labels count as: import, human or folder", "NAME", "import");
}

int run_labels_import(Context& context, const Args& args) {
  const auto source = label_source_named(args.text("source"));
  if (!source || *source == LabelSource::kModel) {
    throw UsageError("--source " + args.text("source") + ": there are import, human and folder");
  }
  const OpenLabels o = open_labels(args, /*to_read=*/false);
  const std::string csv = context.fs().read(args.required("CSV")).or_throw();
  const LabelImport r =
      import_labels(*o.db, o.collection, o.task, csv, context.clock().unix_seconds(), *source)
          .or_throw();
  const Json json = {{"rows", r.rows},
                     {"added", r.added},
                     {"model_rows_left_out", r.model_rows},
                     {"unknown_photos", r.unknown_photos}};
  context.print(json, table(json));
  for (const std::string& path : r.unknown)
    context.progress().say("not in the collection: " + path);
  return kOk;
}

void declare_labels_export(ArgsSpec& args) {
  declare_database(args);
  declare_conditions(args);
  args.flag("o,out", "the file to write (default: stdout)", "FILE");
}

int run_labels_export(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  if (!args.has("out")) {
    export_labels(*o.db, query_of(o, args), [&](std::string_view text) {
      context.print(std::string(text));
      return Status();
    }).or_throw();
    return kOk;
  }
  Publisher out = Publisher::start(context.fs(), args.text("out")).or_throw();
  const int64_t rows = export_labels(*o.db, query_of(o, args), [&](std::string_view text) {
                         return out.write(text);
                       }).or_throw();
  out.commit().or_throw();
  context.print(Json{{"file", args.text("out")}, {"rows", rows}},
                fmt::format("{} labels to {}\n", rows, args.text("out")));
  return kOk;
}

}  // namespace ndtrain::cli
