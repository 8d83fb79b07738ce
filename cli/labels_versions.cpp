// What versions said, and taking it back.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "cli/labels_args.h"
#include "framework/core/csv.h"
#include "ndp/labels/agreement.h"

namespace ndtrain::cli {
using namespace ndp;

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

std::string name_of(const VersionInfo& v) { return full_version_name(v.number, v.content); }

std::optional<VersionInfo> version_with_id(const OpenLabels& o, std::optional<int64_t> id) {
  for (const VersionInfo& v : o.db->versions(o.task).or_throw()) {
    if (v.id == id) return v;
  }
  return std::nullopt;
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
  const VersionInfo from = version_named(o, args.required("from")),
                    to = version_named(o, args.required("to"));
  if (args.on("photos")) {
    DiffQuery q{.collection = o.collection, .from = from.id, .to = to.id};
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
  const LabelDiff diff = o.db->diff(o.collection, from.id, to.id).or_throw();
  Json json = {{"from", version_json(from.number, from.content)["version"]},
               {"to", version_json(to.number, to.content)["version"]}};
  json.update(to_json(diff));
  Json counts = json;
  counts.erase("changes");
  counts["from"] = name_of(from);
  counts["to"] = name_of(to);
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
  args.flag("yes", "do it without asking, as a script wants it");
}

namespace {

std::string would_do(const UndoReport& r, const VersionInfo& version,
                     const std::optional<VersionInfo>& in_force) {
  if (version.withdrawn) return "version " + name_of(version) + " was undone before";
  std::string text = fmt::format(
      "undoing version {} withdraws {} label{}: {} of these photos get an earlier label again, {} "
      "have none then",
      name_of(version), r.withdrawn, r.withdrawn == 1 ? "" : "s", r.restored,
      r.withdrawn - r.restored);
  return text + (in_force ? "; in force is then version " + name_of(*in_force)
                          : "; no version is in force then");
}

// Whether whoever sits there says yes. Throws UsageError when nobody does.
bool confirmed(const std::string& question) {
  if (isatty(STDIN_FILENO) != 1) {
    throw UsageError(question + ". There is no terminal to ask at: --yes does it");
  }
  std::cerr << question << ".\nDo it? [y/N] " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

}  // namespace

int run_labels_undo(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const VersionInfo version = version_named(o, args.required("VERSION"));
  const UndoReport will = o.db->preview_undo(version.id).or_throw();
  const std::optional<VersionInfo> in_force = version_with_id(o, will.in_force);
  const std::string what = would_do(will, version, in_force);
  if (args.on("yes") || version.withdrawn) {
    context.progress().say(what);
  } else if (!confirmed(what)) {
    context.print(Json{{"undone", false}}, "nothing was changed\n");
    return kFailed;
  }
  const UndoReport r = o.db->undo(version.id, context.clock().unix_seconds()).or_throw();
  Json json = version_json(version.number, version.content);
  json.update({{"withdrawn", r.withdrawn},
               {"restored", r.restored},
               {"without_label", r.withdrawn - r.restored}});
  if (in_force) json["in_force"] = version_json(in_force->number, in_force->content)["version"];
  context.print(json, table(json));
  return kOk;
}

void declare_labels_accuracy(ArgsSpec& args) {
  declare_database(args);
  args.flag("version", "its number, content or in-force", "V", "in-force");
}

int run_labels_accuracy(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const VersionInfo version = version_named(o, args.text("version"));
  const FieldAccuracy a = o.db->accuracy(o.collection, version.id).or_throw();
  Json json = version_json(version.number, version.content);
  json.update(to_json(a));
  context.print(json,
                fmt::format("version {}, {} photos that people or imports have labelled\n"
                            "drawn at random since it was made  {}"
                            "all, it may be trained on them     {}",
                            name_of(version), a.truths, text_of(a.at_random), text_of(a.all)));
  return kOk;
}

}  // namespace ndtrain::cli
