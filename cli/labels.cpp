// Labels of photos: find them, say them, forget them.
#include <fmt/format.h>

#include "cli/labels_args.h"
#include "framework/core/csv.h"
#include "framework/core/utc_text.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string score_of(const LabelRow& r) { return r.score ? fmt::format("{:.6f}", *r.score) : ""; }
std::string version_of(const LabelRow& r) {
  return r.version_content ? version_name(r.version_number, *r.version_content) : "";
}
std::string content_of(const LabelRow& r) {
  return r.version_content ? content_prefix(*r.version_content) : "";
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
  std::string csv =
      csv_row({"path", "label", "score", "source", "version", "content", "time", "store"});
  int64_t n = 0;
  for (bool more = true; more && (limit <= 0 || n < limit);) {
    q.limit = limit <= 0 ? 1000 : std::min<int64_t>(1000, limit - n);
    const LabelPage page = o.db->query(q).or_throw();
    for (const LabelRow& r : page.rows) {
      ++n;
      rows.push_back(to_json(r));
      csv += csv_row({r.path, r.class_name, score_of(r), std::string(name_of(r.source)),
                      version_of(r), content_of(r), utc_text(r.time), r.store});
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
  photo_named(o, photo);
  set_label(*o.db, o.collection, o.task, photo, name, context.clock().unix_seconds()).or_throw();
  context.print(Json{{"path", photo}, {"label", name}, {"source", "human"}},
                photo + " is now " + name + "\n");
  return kOk;
}

void declare_labels_history(ArgsSpec& args) {
  args.positional("PHOTO", "its path below the directory that was relabelled");
  declare_database(args);
}

int run_labels_history(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const int64_t photo = photo_named(o, args.required("PHOTO"));
  Json rows = Json::array();
  std::string csv =
      csv_row({"time", "label", "score", "source", "version", "content", "store", "withdrawn"});
  for (const LabelRow& r : o.db->history(o.task, photo).or_throw()) {
    rows.push_back(to_json(r));
    csv += csv_row({utc_text(r.time), r.class_name, score_of(r), std::string(name_of(r.source)),
                    version_of(r), content_of(r), r.store, r.withdrawn ? "withdrawn" : ""});
  }
  context.print(rows, csv);
  return kOk;
}

void declare_labels_rm(ArgsSpec& args) {
  args.positional("PHOTO", "its path below the directory that was relabelled");
  declare_database(args);
}

int run_labels_rm(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const std::string path = args.required("PHOTO");
  // Also for one that is not there: an earlier deletion may have been cut off before its end.
  const Result<int64_t> found = o.db->find_photo(o.collection, path);
  const int64_t photo = found.ok() ? *found : 0;
  o.db->remove_photos({&photo, 1}).or_throw();
  if (!found.ok()) photo_named(o, path);  // says what is wrong
  context.print(
      Json{{"removed", path}},
      path + ": the database holds nothing of it any more; the file itself is untouched\n");
  return kOk;
}

void declare_labels_stats(ArgsSpec& args) { declare_database(args); }

int run_labels_stats(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const LabelStats stats = o.db->stats(o.collection, o.task).or_throw();
  const auto in_force = o.db->in_force(o.task).or_throw();
  Json json = to_json(stats);
  std::string text =
      table({{"photos", stats.photos}, {"labelled", stats.labelled}, {"stale", stats.stale}});
  const auto counts = [&](const char* title, const auto& by_name) {
    text += fmt::format("\n{}\n", title);
    for (const auto& [name, n] : by_name) text += fmt::format("  {:<24} {}\n", name, n);
  };
  counts("by_source", stats.by_source);
  counts("by_class", stats.by_class);
  json["versions"] = Json::array();
  text += "\nversions\n";
  for (const VersionInfo& v : o.db->versions(o.task).or_throw()) {
    const char* state = v.withdrawn ? "undone" : v.id == in_force ? "in force" : "";
    Json version = version_json(v.number, v.content);
    version.update({{"created", v.created},
                    {"in_force", v.id == in_force},
                    {"undone", v.withdrawn.has_value()}});
    json["versions"].push_back(std::move(version));
    text += fmt::format("  {:<12} {}  {}  {}\n", version_name(v.number, v.content),
                        content_prefix(v.content), utc_text(v.created), state);
  }
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
