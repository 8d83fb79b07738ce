// A sample of photos for a person to look at.
#include <fmt/format.h>

#include <iostream>

#include "cli/computing_args.h"
#include "cli/labels_args.h"
#include "framework/core/csv.h"
#include "ndp/labels/label_files.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string score_text(const std::optional<double>& score) {
  return score ? fmt::format("{:.6f}", *score) : "";
}

// Asks for each photo on stderr and reads a line each; what was answered before the end counts.
std::vector<NewLabel> ask(const OpenLabels& o, const std::vector<ReviewPhoto>& photos,
                          int64_t now) {
  std::cerr << "Enter: the label is right; another name: what it shows; s: skip; q: stop\n";
  std::vector<NewLabel> answers;
  size_t n = 0;
  for (const ReviewPhoto& p : photos) {
    const std::string other =
        p.suggested.empty() ? "" : fmt::format(" (other photos say {})", p.suggested);
    std::cerr << fmt::format("{}/{}  {}  {}{}? ", ++n, photos.size(), p.path, p.label, other)
              << std::flush;
    std::string line;
    if (!std::getline(std::cin, line) || line == "q") break;
    if (line == "s") continue;
    const std::vector<std::string> name{line.empty() ? p.label : line};
    answers.push_back({.photo = p.photo,
                       .class_id = o.db->class_ids(o.task, name).or_throw()[0],
                       .time = now,
                       .just_now = true,
                       .at_random = p.at_random});
  }
  return answers;
}

}  // namespace

void declare_labels_review(ArgsSpec& args) {
  declare_database(args);
  args.flag("n,number",
            "how many photos: half drawn at random; the others, labels that ndtrain labels refine "
            "has listed, then the least certain",
            "N", "100");
  args.flag("ask", "ask for each photo here and now, instead of listing them");
  args.flag("answers", "take the list back, with its label column corrected", "CSV");
  declare_seed(args);
}

int run_labels_review(Context& context, const Args& args) {
  const bool answered = args.has("answers");
  if (answered && args.on("ask")) throw UsageError("--ask and --answers: give one of them");
  if (args.integer("number") < 1) throw UsageError("--number: at least 1");
  const OpenLabels o = open_labels(args, /*to_read=*/true);
  const int64_t now = context.clock().unix_seconds();
  if (answered) {
    const std::string csv = context.fs().read(args.text("answers")).or_throw();
    const LabelImport r =
        import_labels(*o.db, o.collection, o.task, csv, now, LabelSource::kHuman).or_throw();
    const Json json = {{"rows", r.rows}, {"added", r.added}, {"unknown_photos", r.unknown_photos}};
    context.print(json, table(json));
    return kOk;
  }
  const auto photos =
      o.db->review(o.collection, o.task, args.integer("number"), context.seed()).or_throw();
  if (args.on("ask")) {
    LabelBatch batch{.task = o.task, .source = LabelSource::kHuman};
    batch.labels = ask(o, photos, now);
    o.db->put_labels(batch).or_throw();
    const Json json = {{"photos", photos.size()}, {"answered", batch.labels.size()}};
    context.print(json, "\n" + table(json));
    return kOk;
  }
  Json rows = Json::array();
  std::string csv =
      csv_row({"path", "label", "model_score", "at_random", "suggested", "suggested_score"});
  for (const ReviewPhoto& p : photos) {
    Json row = {{"path", p.path}, {"label", p.label}, {"at_random", p.at_random}};
    if (p.score) row["model_score"] = *p.score;
    if (p.suggested_score) {
      row["suggested"] = p.suggested;
      row["suggested_score"] = *p.suggested_score;
    }
    rows.push_back(row);
    csv += csv_row({p.path, p.label, score_text(p.score), p.at_random ? "1" : "", p.suggested,
                    score_text(p.suggested_score)});
  }
  context.print(rows, csv);
  return kOk;
}

}  // namespace ndtrain::cli
