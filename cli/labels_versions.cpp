// What versions said, and taking it back.
#include <fmt/format.h>

#include "cli/labels_args.h"
#include "framework/core/csv.h"
#include "ndp/labels/agreement.h"

namespace ndtrain::cli {
namespace {

std::string text_of(const std::optional<double>& score) {
  return score ? fmt::format("{:.6f}", *score) : "";
}

std::vector<ChangedPhoto> changed_photos(const OpenLabels& o, DiffQuery q, int64_t limit) {
  std::vector<ChangedPhoto> all;
  for (bool more = true; more && (limit <= 0 || std::ssize(all) < limit);) {
    q.limit = limit <= 0 ? 1000 : std::min<int64_t>(1000, limit - std::ssize(all));
    const auto page = o.db->changed_photos(q).or_throw();
    all.insert(all.end(), page.begin(), page.end());
    more = std::ssize(page) == q.limit;
    if (more) q.after = page.back().photo;
  }
  return all;
}

std::string text_of(const Agreement& a) {
  if (a.photos == 0) return "no photos\n";
  const Interval i = wilson_interval(a);
  return fmt::format("{:.1f} % ({:.1f} to {:.1f} %): {} of {} photos\n",
                     100.0 * static_cast<double>(a.agree) / static_cast<double>(a.photos),
                     100 * i.low, 100 * i.high, a.agree, a.photos);
}

}  // namespace

void declare_labels_diff(ArgsSpec& args) {
  declare_database(args);
  args.flag("from", "a version: its number, content or in-force (required)", "V");
  args.flag("to", "another one (required)", "V");
  args.flag("photos", "list the photos instead of counting them");
  args.flag("was", "with --photos: only those that were of this class", "NAME");
  args.flag("is", "with --photos: only those that are of this class now", "NAME");
  args.flag("limit", "with --photos: at most this many; 0: all", "N", "100");
}

int run_labels_diff(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const int64_t from = version_named(o, args.required("from")),
                to = version_named(o, args.required("to"));
  if (args.on("photos")) {
    DiffQuery q{.collection = o.collection, .from = from, .to = to};
    if (args.has("was")) q.from_class = class_named(o, args.text("was"));
    if (args.has("is")) q.to_class = class_named(o, args.text("is"));
    Json json = Json::array();
    std::string csv = csv_row({"path", "from", "to", "from_score", "to_score"});
    for (const ChangedPhoto& c : changed_photos(o, q, args.integer("limit"))) {
      Json row = {{"path", c.path}, {"from", c.from}, {"to", c.to}};
      if (c.from_score) row["from_score"] = *c.from_score;
      if (c.to_score) row["to_score"] = *c.to_score;
      json.push_back(row);
      csv += csv_row({c.path, c.from, c.to, text_of(c.from_score), text_of(c.to_score)});
    }
    context.print(json, csv);
    return kOk;
  }
  const LabelDiff diff = o.db->diff(o.collection, from, to).or_throw();
  Json json = {{"from", from}, {"to", to}};
  json.update(to_json(diff));
  Json counts = json;
  counts.erase("changes");
  std::string text = table(counts);
  if (!diff.changes.empty()) text += "\n";
  for (const LabelChange& c : diff.changes) {
    text += fmt::format("{:>10}  {} -> {}\n", c.photos, c.from, c.to);
  }
  context.print(json, text);
  return kOk;
}

void declare_labels_undo(ArgsSpec& args) {
  args.positional("VERSION", "its number, content or in-force; see ndtrain labels stats");
  declare_database(args);
}

int run_labels_undo(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const int64_t version = version_named(o, args.required("VERSION"));
  const UndoReport r = o.db->undo(version, context.clock().unix_seconds()).or_throw();
  Json json = {{"version", version},
               {"withdrawn", r.withdrawn},
               {"restored", r.restored},
               {"without_label", r.withdrawn - r.restored}};
  if (r.in_force) json["in_force"] = *r.in_force;
  context.print(json, table(json));
  return kOk;
}

void declare_labels_accuracy(ArgsSpec& args) {
  declare_database(args);
  args.flag("version", "its number, content or in-force", "V", "in-force");
}

int run_labels_accuracy(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const int64_t version = version_named(o, args.text("version"));
  const FieldAccuracy a = o.db->accuracy(o.collection, version).or_throw();
  Json json = {{"version", version}};
  json.update(to_json(a));
  context.print(json, fmt::format("version {}, {} photos that people or imports have labelled\n"
                                  "drawn at random  {}all              {}",
                                  version, a.truths, text_of(a.at_random), text_of(a.all)));
  return kOk;
}

}  // namespace ndtrain::cli
