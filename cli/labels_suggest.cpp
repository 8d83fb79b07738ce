// Classes for photos that nobody has labelled, from a handful that somebody has.
#include <fmt/format.h>

#include <map>

#include "cli/embedding_args.h"
#include "cli/labels_args.h"
#include "cli/photo_args.h"
#include "framework/core/log.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/suggest_labels.h"
#include "ndp/labels/label_json.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

Json share(const std::optional<double>& x) { return x ? Json(*x) : Json(); }

// Of the task; found by its content, or made. One that was undone stays so: Error.
VersionInfo version_of(const OpenLabels& o, const SuggestedLabels& suggested,
                       const TruthRows& truth, const ModelFile& model, int64_t now) {
  const Json metrics = {{"suggested_by", suggested.method},
                        {"examples", truth.examples.size()},
                        {"probe_accuracy", share(suggested.probe_accuracy)},
                        {"neighbours_accuracy", share(suggested.neighbours_accuracy)}};
  const NewVersion made{.content = content_of(suggested, truth, model.id()),
                        .parent = model.id(),
                        .created = now,
                        .metrics = json_text(metrics)};
  o.db->version(o.task, made).or_throw();
  VersionInfo version = version_named(o, to_hex(made.content));
  if (!version.withdrawn) return version;
  throw Error("version ", full_version_name(version.number, version.content),
              " of the same examples was undone: label others, and it is another version");
}

int64_t put(const OpenLabels& o, const PhotoSet& set, const std::vector<size_t>& photo_of_row,
            const SuggestedLabels& suggested, const TruthRows& truth, const VersionInfo& version,
            int64_t now) {
  std::vector<PhotoPlace> places;
  for (const Photo& p : set.photos) places.push_back({p.path, p.digest});
  const std::vector<int64_t> ids = o.db->add_photos(o.collection, places).or_throw();
  LabelBatch batch{.task = o.task, .version = version.id};
  for (const Suggestion& s : suggested.suggestions) {
    batch.labels.push_back({.photo = ids[photo_of_row[s.row]],
                            .class_id = truth.classes[s.label].id,
                            .score = s.score,
                            .time = now});
  }
  return o.db->put_labels(batch).or_throw().added;
}

std::string held_out_text(const SuggestedLabels& s) {
  if (!s.probe_accuracy) return "a class has one example alone, so none was held out";
  return fmt::format("of held-out examples a linear probe gets {:.1f} % right, neighbours {:.1f} %",
                     100 * *s.probe_accuracy, 100 * *s.neighbours_accuracy);
}

}  // namespace

void declare_labels_suggest(ArgsSpec& args) {
  declare_embedded_photos(args,
                          "a run directory or an ONNX file, by whose features photos are "
                          "compared (required)");
  declare_database(args);
  args.flag("dry-run", "only say how many photos would be labelled as what");
}

int run_labels_suggest(Context& context, const Args& args) {
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const ModelFile model = load_model(context.fs(), args.required("model"));
  const PhotoSet set = photos_to_compare(context, args);
  PhotoEmbeddings seen = embeddings_of(context, args, set, model);
  if (seen.interrupted) {
    log::warn("stopped; the same command goes on");
    return kInterrupted;
  }
  const KnownPhotos known = known_photos(seen, set);
  const TruthRows truth = truth_rows(*o.db, o.collection, o.task, known);
  const SuggestedLabels suggested = suggest_labels(truth, known, shared_threads());
  context.progress().say(fmt::format("{} examples of {} classes; {}; the rest by {}",
                                     truth.examples.size(), truth.classes.size(),
                                     held_out_text(suggested), suggested.method));
  std::map<std::string, int64_t> by_class;
  for (const Suggestion& s : suggested.suggestions) ++by_class[truth.classes[s.label].name];
  Json json = {{"examples", truth.examples.size()},
               {"classes", truth.classes.size()},
               {"method", suggested.method},
               {"probe_accuracy", share(suggested.probe_accuracy)},
               {"neighbours_accuracy", share(suggested.neighbours_accuracy)},
               {args.on("dry-run") ? "to_label" : "labelled", suggested.suggestions.size()}};
  if (!args.on("dry-run")) {
    const int64_t now = context.clock().unix_seconds();
    const VersionInfo version = version_of(o, suggested, truth, model, now);
    json["labelled"] = put(o, set, seen.photos, suggested, truth, version, now);
    json.update(version_json(version.number, version.content));
    context.progress().say(fmt::format("ndtrain labels undo {} takes these labels back",
                                       content_prefix(version.content)));
  }
  std::string text = table(json);
  for (const auto& [name, n] : by_class) text += fmt::format("  {:<24} {}\n", name, n);
  json["by_class"] = by_class;
  context.print(json, text);
  return report_quarantine(seen.quarantined);
}

}  // namespace ndtrain::cli
