#include "cli/labels_args.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_database(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Database");
  args.flag("db", "the label database, as relabel makes it (required)", "URL");
  args.flag("collection", "collection of photos", "NAME", std::string(kDefaultCollection));
  args.flag("task", "which classifier's labels", "NAME", std::string(kDefaultTask));
}

OpenLabels open_labels(const Args& args, bool to_read) {
  OpenLabels o{open_label_db(args.required("db"), OpenLabelDb::kExisting).or_throw(), 0, 0};
  o.collection = existing_collection(*o.db, args.required("collection")).or_throw();
  const std::string task = args.required("task");
  o.task = (to_read ? existing_task(*o.db, task) : o.db->task(task)).or_throw();
  return o;
}

void declare_conditions(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Conditions");
  args.flag("label", "only this class", "NAME");
  args.flag("path", "only photos that have this in their path", "TEXT");
  args.flag("min-score", "only scores of at least this", "X");
  args.flag("max-score", "only scores of at most this", "X");
  args.flag("source", "only labels by human, import, folder or model", "NAME");
  args.flag("store", "only labels that this PipeStore made", "NAME");
  args.flag("version", "only labels by this version: its number, content or in-force", "V");
  args.flag("stale", "only labels by another version than the one in force");
  args.flag("since", "only labels from this time on, in Unix seconds", "T");
  args.flag("until", "only labels up to this time, in Unix seconds", "T");
}

LabelQuery query_of(const OpenLabels& o, const Args& args) {
  LabelQuery q{.collection = o.collection, .task = o.task};
  if (args.has("label")) q.class_id = class_named(o, args.text("label"));
  q.path = args.text("path");
  if (args.has("min-score")) q.min_score = args.number("min-score");
  if (args.has("max-score")) q.max_score = args.number("max-score");
  if (args.has("store")) q.store = existing_store(*o.db, args.text("store")).or_throw();
  if (args.has("version")) q.version = version_named(o, args.text("version")).id;
  if (args.has("since")) q.since = args.integer("since");
  if (args.has("until")) q.until = args.integer("until");
  q.stale = args.on("stale");
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

int64_t class_named(const OpenLabels& o, const std::string& name) {
  return existing_class(*o.db, o.task, name).or_throw();
}

VersionInfo version_named(const OpenLabels& o, const std::string& name) {
  return existing_version(*o.db, o.task, name).or_throw();
}

int64_t photo_named(const OpenLabels& o, const std::string& path) {
  const Result<int64_t> photo = o.db->find_photo(o.collection, path);
  if (!photo.ok() && photo.status().code() == Code::kNotFound) {
    throw Error("the collection has no photo '", path,
                "'; relabel its directory first, and give the path below it");
  }
  return Result<int64_t>(photo).or_throw();
}

}  // namespace ndtrain::cli
