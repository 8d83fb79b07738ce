// Labels that what their photos show contradicts.
#include <fmt/format.h>

#include "cli/embedding_args.h"
#include "cli/labels_args.h"
#include "cli/photo_args.h"
#include "framework/core/csv.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/refine_labels.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string probability(double p) { return fmt::format("{:.6f}", p); }

// What --apply allows, and -o is there for.
struct Apply {
  std::string bound, record;
};

std::optional<Apply> apply_of(const Args& args, Fs& fs) {
  if (!args.has("apply")) {
    if (args.has("out")) throw UsageError("-o FILE records what --apply changes: give both");
    return {};
  }
  if (args.on("dry-run")) throw UsageError("--apply and --dry-run: give one of them");
  Apply apply{args.text("apply"), args.text("out")};
  if (!bound_named(apply.bound, 1000)) {
    throw UsageError("--apply " + apply.bound +
                     ": how many labels may be changed at most, as 20, 5% or 0.05 of those that "
                     "are looked at");
  }
  if (apply.record.empty()) {
    throw UsageError("--apply needs -o FILE, for a record by which the changes can be undone");
  }
  if (fs.exists(apply.record)) {
    throw UsageError("-o " + apply.record +
                     ": is there already, perhaps as the record of earlier changes; name another");
  }
  return apply;
}

// Each photo's probabilities, class by class, as another program may want them.
std::string scores_csv(const RefinedLabels& refined) {
  std::vector<std::string> header = {"path", "label"};
  for (const ClassInfo& c : refined.truth.classes) header.push_back(c.name);
  std::string csv = csv_row(header);
  for (size_t e = 0; e < refined.truth.labels.size(); ++e) {
    const LabelRow& label = refined.truth.labels[e];
    std::vector<std::string> row = {label.path, label.class_name};
    for (const double p : refined.held_out.of(e)) row.push_back(fmt::format("{:.9g}", p));
    csv += csv_row(row);
  }
  return csv;
}

// The record is on disk before the first label changes.
int64_t change(Context& context, const OpenLabels& o, const RefinedLabels& refined,
               const Apply& apply) {
  const auto most = *bound_named(apply.bound, std::ssize(refined.truth.labels));
  const std::vector<RefinedLabel> changed = changeable(refined, most);
  publish(context.fs(), apply.record, record_of(changed)).or_throw();
  const int64_t n = apply_suggested(*o.db, o.task, changed, context.clock().unix_seconds());
  context.progress().say(fmt::format(
      "{} labels changed, as an import; ndtrain labels import {} with the same --db brings back "
      "what was",
      n, apply.record));
  return n;
}

void print(Context& context, const RefinedLabels& refined, const Json& summary) {
  std::string csv =
      csv_row({"path", "label", "probability", "suggested", "suggested_probability", "source"});
  Json json = summary;
  json["issues"] = Json::array();
  for (const RefinedLabel& r : refined.issues) {
    const std::string source(name_of(r.label.source));
    csv += csv_row({r.label.path, r.label.class_name, probability(r.score), r.suggested_name,
                    probability(r.suggested_score), source});
    json["issues"].push_back(to_json(r));
  }
  context.print(json, csv);
}

}  // namespace

void declare_labels_refine(ArgsSpec& args) {
  declare_embedded_photos(args,
                          "a run directory or an ONNX file, by whose features photos are "
                          "compared (required)");
  declare_database(args);
  args.flag("apply",
            "take the suggestions for what imports and folders said, at most so many, or such a "
            "share of the labels that were looked at (20, 5%); what a person said is for "
            "ndtrain labels review",
            "N|SHARE");
  args.flag("o,out", "record what --apply changes; ndtrain labels import of it undoes that",
            "FILE");
  args.flag("scores", "write every photo's held-out probability of each class", "CSV");
  args.flag("dry-run", "only list: reviews do not begin with these labels");
}

int run_labels_refine(Context& context, const Args& args) {
  const std::optional<Apply> apply = apply_of(args, context.fs());
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const ModelFile model = load_model(context.fs(), args.required("model"));
  const PhotoSet set = photos_to_compare(context, args);
  PhotoEmbeddings seen = embeddings_of(context, args, set, model);
  if (seen.interrupted) {
    log::warn("stopped; the same command goes on");
    return kInterrupted;
  }
  const KnownPhotos known = known_photos(seen, set);
  const RefinedLabels refined =
      refine_labels(truth_rows(*o.db, o.collection, o.task, known), known, shared_threads());
  if (!args.on("dry-run")) keep_issues(*o.db, o.task, refined);
  if (args.has("scores")) {
    publish(context.fs(), args.text("scores"), scores_csv(refined)).or_throw();
  }
  const auto looked_at = std::ssize(refined.truth.labels);
  context.progress().say(fmt::format(
      "{} labels of {} classes looked at: {} are contradicted by what other photos of their "
      "classes show{}{}",
      looked_at, refined.truth.classes.size(), refined.issues.size(),
      refined.rare == 0 ? ""
                        : fmt::format("; {} of classes with fewer than {} photos were left out",
                                      refined.rare, kFewestToRefine),
      refined.truth.without_embedding == 0
          ? ""
          : fmt::format("; {} photos with labels are not among those named",
                        refined.truth.without_embedding)));
  Json summary = {{"looked_at", looked_at},
                  {"classes", refined.truth.classes.size()},
                  {"rare", refined.rare},
                  {"not_named", refined.truth.without_embedding},
                  {"held_out_accuracy", accuracy(refined.truth.examples, refined.held_out)},
                  {"applied", 0},
                  {"record", nullptr}};
  if (apply) {
    summary["applied"] = change(context, o, refined, *apply);
    summary["record"] = apply->record;
  }
  print(context, refined, summary);
  return report_quarantine(seen.quarantined);
}

}  // namespace ndtrain::cli
